"""What a request asks for: the grammar of Kubernetes' URL space, read once.

`/api/v1` and `/apis/GROUP/VERSION`, then `[/namespaces/NAMESPACE]/RESOURCE[/NAME[/SUBRESOURCE…]]`; everything else is a
non-resource path. The verb is the one RBAC speaks of (`list`, not GET). Query options are parsed only when there are any.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl

from gpuaas.base.errors import BadRequest
from gpuaas.base.numbers import integer, is_digits
from gpuaas.base.selectors import parse_fields

_METHOD_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}
# Resources that look like namespaces' parts but are the namespace's own subresources.
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
MOST_PARAMETERS: Final = 1000  # of a query
_MALFORMED = re.compile(r";|%(?![0-9A-Fa-f]{2})")  # a part of a query that has this says nothing, to Go


def said(query: Mapping[str, str], name: str) -> bool:
    """Whether an option is given, and not as a word for no: Kubernetes takes any other word for yes."""
    value = query.get(name)
    return value is not None and value.lower() not in ("false", "0")


@dataclass(slots=True)
class RequestInfo:
    verb: str
    path: str  # below the cluster's own prefix
    group: str = ""
    version: str = ""
    resource: str = ""  # "" for non-resource paths
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""  # what follows the subresource (proxy paths)
    scoped: bool = False  # the path goes through a namespace
    selected: str = ""  # the one name a list's field selector leaves, which permission may hang on
    query: dict[str, str] = field(default_factory=dict)
    multi: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_resource(self) -> bool:
        return bool(self.resource)

    def flag(self, name: str) -> bool:
        return said(self.query, name)

    def number(self, name: str) -> int | None:
        value = self.query.get(name)
        return whole_number(value) if value else None


def whole_number(text: str) -> int:
    """As Go reads one of 64 bits; Python would take blanks, underscores and other alphabets' digits as well."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not is_digits(digits):
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    number = integer(text)
    if number is None:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number


def request_info(method: str, path: str, query: str) -> RequestInfo:
    info = _path_info(method, path)
    if query:
        count = query.count("&") + 1
        if count > MOST_PARAMETERS:
            raise BadRequest(f"a query of {count} parameters: limit is {MOST_PARAMETERS}")
        if _MALFORMED.search(query):
            query = "&".join(part for part in query.split("&") if not _MALFORMED.search(part))
        for key, value in parse_qsl(query, keep_blank_values=True):
            info.query.setdefault(key, value)
            info.multi.setdefault(key, []).append(value)
    if not info.resource:
        info.verb = method.lower()
    elif info.verb == "get" and not info.name:
        info.verb = "watch" if info.flag("watch") else "list"
        info.selected = _selected(info.query.get("fieldSelector", ""))
    elif info.verb == "delete" and not info.name:
        info.verb = "deletecollection"
    return info


def _selected(selector: str) -> str:
    if "metadata.name" not in selector:
        return ""
    try:
        terms = parse_fields(selector)
    except ValueError:
        return ""  # refused later, with words
    names = [term.value for term in terms if term.path == "metadata.name" and term.equal]
    return names[0] if names else ""


def _path_info(method: str, path: str) -> RequestInfo:
    verb = _METHOD_VERBS.get(method, "")
    info = RequestInfo(verb, path)
    parts = path.split("/")
    if parts[-1] == "" and len(parts) > 2:
        parts.pop()
    if len(parts) < 4 or parts[0]:
        return info
    if parts[1] == "api":
        group, version, rest = "", parts[2], parts[3:]
    elif parts[1] == "apis" and len(parts) >= 5:
        group, version, rest = parts[2], parts[3], parts[4:]
    else:
        return info
    if rest[0] == "watch" and len(rest) > 1:  # the old form of ?watch=true
        rest = rest[1:]
        if verb == "get":
            info.verb = "watch"
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        info.namespace = rest[1]
        info.scoped = True
        rest = rest[2:]
    info.group, info.version, info.resource = group, version, rest[0]
    if len(rest) > 1:
        info.name = rest[1]
    if len(rest) > 2:
        info.subresource = rest[2]
        info.rest = "/".join(rest[3:])
    if info.resource == "namespaces" and info.name:
        info.namespace = info.name  # as RBAC sees it: a namespace lives in itself
    return info
