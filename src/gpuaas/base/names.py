"""The spelling rules of Kubernetes names, labels and annotations.

Each `is_*` function returns the list of complaints, in Kubernetes' words; an empty list means the value is fine.
"""

import re

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")

_REGEX_NOTE = "regex used for validation is"


def _length(limit: int, unit: str = "bytes") -> str:
    """Kubernetes speaks of characters where a name is meant and of bytes where a label is."""
    return f"must be no more than {limit} {unit}"


def is_dns1123_label(value: str) -> list[str]:
    complaints = [] if len(value) <= 63 else [_length(63, "characters")]
    if not _LABEL.fullmatch(value):
        if _SUBDOMAIN.fullmatch(value):
            complaints.append("must not contain dots")
        else:
            complaints.append(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and"
                f" end with an alphanumeric character (e.g. 'my-name',  or '123-abc', {_REGEX_NOTE} '{_LABEL.pattern}')"
            )
    return complaints


def is_dns1123_subdomain(value: str, unit: str = "characters") -> list[str]:
    complaints = [] if len(value) <= 253 else [_length(253, unit)]
    if not _SUBDOMAIN.fullmatch(value):
        complaints.append(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start"
            f" and end with an alphanumeric character (e.g. 'example.com', {_REGEX_NOTE} '{_SUBDOMAIN.pattern}')"
        )
    return complaints


def is_dns1035_label(value: str) -> list[str]:
    complaints = [] if len(value) <= 63 else [_length(63, "characters")]
    if not _LABEL_1035.fullmatch(value):
        complaints.append(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
            " character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123',"
            f" {_REGEX_NOTE} '{_LABEL_1035.pattern}')"
        )
    return complaints


def is_qualified_name(value: str) -> list[str]:
    """A label or annotation key, a resource name: `[prefix/]name`."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        return [
            "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
            " alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
            f"{_REGEX_NOTE} '{_QUALIFIED.pattern}') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    complaints: list[str] = []
    if slash:
        if not prefix:
            complaints.append("prefix part must be non-empty")
        else:
            complaints.extend(f"prefix part {text}" for text in is_dns1123_subdomain(prefix, "bytes"))
    if not name:
        complaints.append("name part must be non-empty")
    elif len(name) > 63:
        complaints.append(f"name part {_length(63)}")
    if not _QUALIFIED.fullmatch(name):
        complaints.append(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
            " alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
            f"{_REGEX_NOTE} '{_QUALIFIED.pattern}')"
        )
    return complaints


def is_label_value(value: str) -> list[str]:
    complaints = [] if len(value) <= 63 else [_length(63)]
    if not _VALUE.fullmatch(value):
        complaints.append(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start"
            " and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
            f"{_REGEX_NOTE} '{_VALUE.pattern}')"
        )
    return complaints


def is_config_key(value: str) -> list[str]:
    """A key of a ConfigMap or Secret: a file name."""
    complaints = [] if len(value) <= 253 else [_length(253, "characters")]
    if not _CONFIG_KEY.fullmatch(value):
        complaints.append(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or"
            f" 'KEY_NAME',  or 'key-name', {_REGEX_NOTE} '{_CONFIG_KEY.pattern}')"
        )
    elif value == ".":
        complaints.append("must not be '.'")
    elif value == "..":
        complaints.append("must not be '..'")
    elif value.startswith(".."):
        complaints.append("must not start with '..'")
    return complaints


def is_path_segment(value: str) -> list[str]:
    """Names of RBAC objects and others that only have to fit into a URL."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{char}'" for char in ("/", "%") if char in value]
