"""YAML as Kubernetes reads and writes it: JSON's types only, and the words that mean yes and no in YAML 1.1.

Every text from outside enters here, within the limits of module yamlreader: `read_yaml` for the one document of a
request, `load_yaml` and `load_yaml_documents` for files. Scalars are resolved as Go's library does it (module
yamlscalars), mistakes are described in its words, and text that would be read as something else is quoted on the way out.
"""

from collections.abc import Iterator
from typing import Any

import yaml

from gpuaas.machinery.yamlreader import BODY, FILE, Document, Limits, YamlError, documents
from gpuaas.machinery.yamlscalars import BadScalar, resolve_plain

__all__ = [
    "BODY",
    "FILE",
    "Document",
    "Limits",
    "YamlError",
    "dump_yaml",
    "load_yaml",
    "load_yaml_documents",
    "read_yaml",
]

_DumperBase: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_STRING = "tag:yaml.org,2002:str"


class _Dumper(_DumperBase):  # type: ignore[misc]  # its base is libyaml's dumper or the pure one, whichever is there
    pass


def read_yaml(text: str | bytes, limits: Limits = BODY) -> Document:
    """The one document of a text, with the keys that came twice."""
    found = list(documents(text, limits._replace(documents=1)))
    return found[0] if found else Document(None, [])


def load_yaml(text: str | bytes, limits: Limits = FILE) -> Any:
    """The value of the one document of a text; None where there is none."""
    return read_yaml(text, limits).value


def load_yaml_documents(text: str | bytes, limits: Limits = FILE) -> Iterator[Any]:
    for document in documents(text, limits):
        yield document.value


def dump_yaml(value: Any) -> str:
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=False, sort_keys=True, allow_unicode=True, width=1 << 30
    )
    return text


def _represent_text(dumper: Any, text: str) -> Any:
    """Text that would be read as something else is put in double quotes, several lines stay several lines."""
    if "\n" in text:
        return dumper.represent_scalar(_STRING, text, style="|")
    reads_as = dumper.resolve(yaml.ScalarNode, text, (True, False))
    ambiguous = reads_as != _STRING or not _is_text(text)
    return dumper.represent_scalar(_STRING, text, style='"' if ambiguous else None)


_Dumper.add_representer(str, _represent_text)
_Dumper.ignore_aliases = lambda _dumper, _value: True


def _is_text(text: str) -> bool:
    """Whether it is read back as the text it is, without quotes."""
    try:
        return resolve_plain(text) is text
    except BadScalar:
        return False
