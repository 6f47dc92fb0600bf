"""A container's environment and command line as its pod says: plain values, references, `$(NAME)` in words.

What a reference needs (config maps, secrets) is given; a missing one that is not optional is an error with the words
kubelets use. Sizes are computed before a string is built, and what Linux would refuse to execute is refused here
(module limits): `Environment` holds the variables that are set, with their sizes, and expands words over them.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from gpuaas.base.errors import ApiError, NotFound
from gpuaas.base.fielderrors import quote
from gpuaas.devices.holding import held_by, variables
from gpuaas.executors.limits import MAX_EXEC, MAX_STRING, POINTER, REFERENCES, STRINGS, VARIABLES, Budget, ExecRefused

View = Mapping[str, Any]
Lookup = Callable[[str, str], Awaitable[View]]  # (ConfigMap or Secret, name) -> its data

_LONGEST_NAME = 64  # characters of a variable's name in a message
_AT_ONCE = 64  # objects that are looked up in one slice of the event loop
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.\-][A-Za-z0-9_.\-]*)\)")


class Missing(Exception):
    """Something the environment refers to is not there."""


class Environment:
    """The variables of one container, and how many bytes execve would be given of them and of its words."""

    def __init__(self, budget: Budget, inherited: Mapping[str, str] | None = None) -> None:
        self.values: dict[str, str] = {}
        self._sizes: dict[str, int] = {}  # of values
        self._total = 0
        self._budget = budget
        for name, value in (inherited or {}).items():
            self.set(name, value)

    def set(self, name: str, value: str) -> None:
        size, length = _size(value), _size(name) + 1
        self._budget.spend(VARIABLES, 1)
        self._budget.spend(STRINGS, length + size + POINTER)
        _check_string(_variable(name), length + size, value)
        before = self._sizes.get(name)
        self._total += size if before is None else size - before
        self._total += length + POINTER if before is None else 0
        self._check_total(_variable(name), self._total)
        self.values[name], self._sizes[name] = value, size

    def expand(self, what: str, text: str) -> str:
        """`$(NAME)` becomes its value; one that is not known stays, and `$$` is one `$`."""
        if "$" not in text:
            return text
        _check_string(what, _size(text))
        self._budget.spend(REFERENCES, text.count("$"))
        _check_string(what, self._expanded_size(text))

        def put(match: re.Match[str]) -> str:
            return "$" if match[0] == "$$" else self.values.get(match[1], match[0])

        return _REFERENCE.sub(put, text)

    def _expanded_size(self, text: str) -> int:
        total, sizes = _size(text), self._sizes
        for match in _REFERENCE.finditer(text):
            if match[0] == "$$":
                total -= 1
            elif match[1] in sizes:
                total += sizes[match[1]] - len(match[0])
        return total

    def words(self, container: View) -> list[str]:
        """Its command line, filled in."""
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        taken = check_words(words, self._budget)
        for number, word in enumerate(words):
            if "$" in word:
                words[number] = self.expand(f"argument {number}", word)
                taken += _size(words[number]) - _size(word)
                self._check_total(f"argument {number}", self._total + taken)
        self._check_total("its arguments", self._total + taken)
        return words

    def _check_total(self, what: str, total: int) -> None:
        if total > MAX_EXEC:
            raise ExecRefused(
                f"argument list too long: arguments and environment take {total} bytes with {what}, "
                f"at most {MAX_EXEC} are allowed"
            )


def check_words(words: Sequence[str], budget: Budget) -> int:
    """How many bytes execve would be given of them as they are written; checked before anything is done with them."""
    joined = "\0".join(words)
    total = _size(joined) - max(len(words) - 1, 0) + POINTER * len(words)
    budget.spend(STRINGS, total)
    if total > MAX_EXEC:
        raise ExecRefused(f"argument list too long: arguments take {total} bytes, at most {MAX_EXEC} are allowed")
    if max(map(len, words), default=0) * 4 > MAX_STRING:  # no character takes more than four bytes
        for number, word in enumerate(words):
            _check_string(f"argument {number}", _size(word))
    if joined.count("\0") >= max(len(words), 1):
        raise ExecRefused("invalid argument: an argument holds a NUL character, which no program can be given")
    return total


def _check_string(what: str, size: int, value: str = "") -> None:
    if size > MAX_STRING:
        raise ExecRefused(f"argument list too long: {what} is {size} bytes, at most {MAX_STRING} are allowed")
    if "\0" in value:
        raise ExecRefused(f"invalid argument: {what} holds a NUL character, which no program can be given")


def _variable(name: str) -> str:
    return f"env {name}" if len(name) <= _LONGEST_NAME else f"env {name[:_LONGEST_NAME]}..."


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


async def environment_of(
    pod: View, container: View, lookup: Lookup, inherited: Mapping[str, str], budget: Budget | None = None
) -> Environment:
    """`budget` is the pod's, where several containers are looked at."""
    made = Environment(budget or Budget(), inherited)
    lookup = remembered(lookup)
    for source in container.get("envFrom") or ():
        for kind, key in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
            if source.get(key):
                data = await _data(kind, source[key], lookup)
                for name, value in data.items():
                    made.set(f"{source.get('prefix') or ''}{name}", str(value))
    for variable in container.get("env") or ():
        name, source = variable["name"], variable.get("valueFrom")
        if not source:
            made.set(name, made.expand(_variable(name), str(variable.get("value") or "")))
        elif (found := await _value(pod, container, source, lookup)) is not None:
            made.set(name, found)  # as it is: kubelets expand only what stands in the pod
    return made


def remembered(lookup: Lookup) -> Lookup:
    """Asks for each object once, however often it is referred to; others have their turn between many of them."""
    known: dict[tuple[str, str], View] = {}
    asked = 0

    async def once(kind: str, name: str) -> View:
        nonlocal asked
        if (kind, name) not in known:
            asked += 1
            if asked % _AT_ONCE == 0:
                await asyncio.sleep(0)
            known[kind, name] = await lookup(kind, name)
        return known[kind, name]

    return once


def known_environment(pod: View, container: View, budget: Budget) -> Environment:
    """The part of it that the pod itself says."""
    made = Environment(budget)
    for variable in container.get("env") or ():
        name, source = variable["name"], variable.get("valueFrom") or {}
        if source.get("fieldRef"):
            made.set(name, _field(pod, source["fieldRef"]["fieldPath"]))
        elif not source:
            made.set(name, made.expand(_variable(name), str(variable.get("value") or "")))
    for name, value in variables(held_by(pod), container["name"]).items():
        made.set(name, value)
    return made


async def _value(pod: View, container: View, source: View, lookup: Lookup) -> str | None:
    if source.get("fieldRef"):
        return _field(pod, source["fieldRef"]["fieldPath"])
    if source.get("resourceFieldRef"):
        return _resource(container, source["resourceFieldRef"]["resource"])
    for kind, key in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
        reference = source.get(key)
        if not reference:
            continue
        data = await _data(kind, reference, lookup)
        if reference["key"] in data:
            return str(data[reference["key"]])
        if reference.get("optional"):
            return None
        namespace = pod["metadata"].get("namespace")
        raise Missing(f"couldn't find key {reference['key']} in {kind} {namespace}/{reference.get('name')}")
    return ""


async def _data(kind: str, reference: View, lookup: Lookup) -> View:
    try:
        return await lookup(kind, reference.get("name") or "")
    except ApiError as error:
        if reference.get("optional"):
            return {}
        raise Missing(not_there(kind, reference.get("name") or "", error)) from None


def not_there(kind: str, name: str, error: ApiError) -> str:
    """In a kubelet's words, which are not the server's."""
    return f"{kind.lower()} {quote(name)} not found" if isinstance(error, NotFound) else error.message


def _field(pod: View, path: str) -> str:
    found = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if found:
        return str((pod["metadata"].get(found[1]) or {}).get(found[2], ""))
    value: Any = pod
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)


def _resource(container: View, name: str) -> str:
    kind, _, resource = name.partition(".")
    return str(((container.get("resources") or {}).get(kind) or {}).get(resource, "0"))
