"""YAML as Kubernetes reads it: JSON's types only, no dates, no surprises from `on` and `off`.

libyaml's loader where it is there. A document whose aliases would unfold into more than a million nodes is refused:
it costs nothing to send and everything to encode.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_MAX_NODES = 1_000_000


class _Loader(_Base):  # type: ignore[misc]  # its base is libyaml's loader or the pure one, whichever is there
    pass


_BOOLEANS = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_DROPPED = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool"}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _DROPPED]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}
for _first in "tTfF":
    _Loader.yaml_implicit_resolvers.setdefault(_first, []).insert(0, ("tag:yaml.org,2002:bool", _BOOLEANS))


class YamlError(ValueError):
    """Not YAML, or not YAML that can be an object; the message says where."""


def load_yaml(text: str | bytes) -> Any:
    documents = list(load_yaml_documents(text))
    if len(documents) > 1:
        raise YamlError(f"expected one YAML document, found {len(documents)}")
    return documents[0] if documents else None


def load_yaml_documents(text: str | bytes) -> Iterator[Any]:
    try:
        for document in yaml.load_all(text, Loader=_Loader):
            yield _as_json(document, [_MAX_NODES])
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise YamlError(str(error).replace("\n", " ")) from None


def dump_yaml(value: Any) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, default_flow_style=False, sort_keys=True, allow_unicode=True)
    return text


def _as_json(value: Any, budget: list[int]) -> Any:
    budget[0] -= 1
    if budget[0] < 0:
        raise YamlError("the document unfolds into more than a million values")
    if isinstance(value, dict):
        return {_key(key): _as_json(item, budget) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item, budget) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise YamlError(f"a value of type {type(value).__name__} has no place in an object")


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str | int | float):
        return str(key)
    raise YamlError(f"a key must be a string, found {key!r}")
