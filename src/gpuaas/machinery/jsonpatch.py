"""JSON patches (RFC 6902), with the liberties kube-apiserver takes: negative indices count from the end, replacing a
field that is not there sets it, and testing a field that is not there finds null.

The object is never changed: containers on the way to a change are copied once for each patch, everything else is
shared with the object and with the patch. A patch that does not apply is refused in the server's words, which do not
say why; `PatchRefused.why` does, for logs.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from gpuaas.base.errors import ApiError, BadRequest, TooLarge
from gpuaas.base.numbers import is_digits

MAX_OPERATIONS: Final = 10_000
MAX_MOVED: Final = 50_000_000  # items of lists that insertions and removals move: 50 ms
MAX_COPIED: Final = 3 * 1024 * 1024  # bytes: copies of copies double with every line of a patch
_LONGEST_INDEX: Final = 20  # digits; no list is that long
_MAX_DEPTH: Final = 200  # steps of a pointer; what is deeper cannot have been sent
_ABSENT: Final = object()
_GO_KINDS: Final = ((bool, "bool"), (dict, "object"), (list, "array"), (str, "string"))


class PatchRefused(ApiError):
    """422: the patch is well formed, but does not apply to this object."""

    code, reason = 422, "Invalid"

    def __init__(self, why: str) -> None:
        super().__init__("the server rejected our request due to an error in our request")
        self.why = why

    def status(self) -> dict[str, Any]:
        status = super().status()
        code = status.pop("code")
        return {**status, "details": self.details, "code": code}


def apply_json_patch(obj: Mapping[str, Any], ops: Any) -> Any:
    """The object after all operations, in order. Nothing is applied if one of them cannot be."""
    checked = _operations(ops)
    if len(checked) > MAX_OPERATIONS:
        limit = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(checked)}"
        raise TooLarge(f"Request entity too large: {limit}")
    document = _Document(obj)
    for operation in checked:
        try:
            document.apply(operation)
        except _Nowhere as nowhere:
            raise PatchRefused(nowhere.words(operation)) from None
    return document.root


def _operations(ops: Any) -> Sequence[dict[str, Any]]:
    if ops is None:
        return []
    if not isinstance(ops, list):
        raise BadRequest(_cannot(ops, "Go value of type []handlers.jsonPatchOp"))
    for operation in ops:
        if operation is None:
            continue
        if not isinstance(operation, dict):
            raise BadRequest(_cannot(operation, "Go value of type handlers.jsonPatchOp"))
        for name in ("op", "path", "from"):
            found = operation.get(name)
            if found is not None and not isinstance(found, str):
                raise BadRequest(_cannot(found, f"Go struct field jsonPatchOp.{name} of type string"))
    return [operation or {} for operation in ops]


def _cannot(value: Any, target: str) -> str:
    return f"error decoding patch: json: cannot unmarshal {json_kind(value)} into {target}"


def json_kind(value: Any) -> str:
    """The JSON type of a value as Go's decoder names it."""
    return next((name for kind, name in _GO_KINDS if isinstance(value, kind)), "null" if value is None else "number")


class _Nowhere(Exception):
    """A pointer that leads nowhere: the way to it is missing, or, with `why`, its end."""

    def __init__(self, why: str = "", *, source: bool = False) -> None:
        super().__init__(why)
        self._why, self._source = why, source

    def words(self, operation: dict[str, Any]) -> str:
        """As the library says it that Kubernetes uses."""
        kind, path = operation["op"], operation["from" if self._source else "path"]
        if self._why:
            return f"error in {kind} for path: '{path}': {self._why}"
        end = "from " if self._source else "destination " if kind in ("move", "copy") else ""
        place = f'"{path}"' if kind in ("add", "remove") else path
        doc = "" if kind == "test" else "doc "
        return f"{kind} operation does not apply: {doc}is missing {end}path: {place}: missing value"


class _Document:
    """The object while it is patched; `_own` are the containers made here, which may be changed in place."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._own: dict[int, Any] = {}
        self._copied = 0
        self._moved = 0

    def apply(self, operation: dict[str, Any]) -> None:
        value = operation.get("value")
        match operation.get("op"):
            case "add":
                self._add(self._pointer(operation, "path"), value)
            case "remove":
                self._remove(self._pointer(operation, "path"))
            case "replace":
                self._replace(self._pointer(operation, "path"), value)
            case "test":
                self._test(self._pointer(operation, "path"), value)
            case "move":
                source = self._pointer(operation, "from")
                moved = self._get(source, source=True)
                self._remove(source)
                self._add(self._pointer(operation, "path"), moved)
            case "copy":
                copied = self._get(self._pointer(operation, "from"), source=True)
                self._add(self._pointer(operation, "path"), self._twin(copied))
            case other:
                raise PatchRefused(f"Unexpected kind: {other or 'unknown'}")

    def _twin(self, copied: Any) -> Any:
        """A tree of its own, so that what is patched later is in one place only."""
        try:
            text = msgspec.json.encode(copied)
        except RecursionError:
            raise PatchRefused(f"the copies are nested deeper than {_MAX_DEPTH}") from None
        self._copied += len(text)
        if self._copied > MAX_COPIED:
            raise PatchRefused(
                f"Unable to complete the copy, the accumulated size increase of copy is {self._copied}, "
                f"exceeding the limit {MAX_COPIED}"
            )
        return msgspec.json.decode(text) if isinstance(copied, dict | list) else copied

    def _shift(self, container: list[Any], index: int) -> None:
        """An insertion or removal moves all that is behind it."""
        self._moved += len(container) - index
        if self._moved > MAX_MOVED:
            raise PatchRefused(
                f"the operations move {self._moved} items of lists to make or close gaps, exceeding the limit {MAX_MOVED}"
            )

    def _pointer(self, operation: dict[str, Any], name: str) -> list[str]:
        text = operation.get(name)
        if text is None:
            raise PatchRefused(f"{operation['op']} operation failed to decode {name}: missing value")
        steps = text.split("/")[1:]
        if len(steps) > _MAX_DEPTH:
            raise PatchRefused(f"{operation['op']} operation does not apply: {name} has {len(steps)} steps")
        return [_unescaped(step) for step in steps]

    def _add(self, pointer: list[str], value: Any) -> None:
        container = self._container(pointer)
        key = pointer[-1]
        if isinstance(container, dict):
            container[key] = value
        elif key == "-":
            container.append(value)
        else:
            index = _index(key, len(container) + 1)
            self._shift(container, index)
            container.insert(index, value)

    def _remove(self, pointer: list[str]) -> None:
        container = self._container(pointer)
        if isinstance(container, list):
            index = _index(pointer[-1], len(container))
            self._shift(container, index)
            del container[index]
        elif pointer[-1] in container:
            del container[pointer[-1]]
        else:
            raise _Nowhere(f"Unable to remove nonexistent key: {pointer[-1]}: missing value")

    def _replace(self, pointer: list[str], value: Any) -> None:
        if not pointer:
            if not isinstance(value, dict | list):
                raise PatchRefused("replace operation value must be object or array")
            self.root = value
            return
        container = self._container(pointer)
        if isinstance(container, dict):
            container[pointer[-1]] = value
        else:
            container[_index(pointer[-1], len(container))] = value

    def _test(self, pointer: list[str], value: Any) -> None:
        found = self._get(pointer) if pointer else self.root
        if not _equal(found, value):
            raise PatchRefused(f"testing value /{'/'.join(pointer)} failed: test failed")

    def _get(self, pointer: list[str], *, source: bool = False) -> Any:
        """What is there; null where a map has no such key."""
        if not pointer:
            raise _Nowhere(source=source)
        node = self.root
        for step in pointer[:-1]:
            node = _child(node, step)
            if not isinstance(node, dict | list):
                raise _Nowhere(source=source)
        return _child(node, pointer[-1])

    def _container(self, pointer: list[str]) -> Any:
        """The container of the last step, ours to change, with ours on the way to it."""
        if not pointer:
            raise _Nowhere
        node = self.root = self._owned(self.root)
        for step in pointer[:-1]:
            below = _child(node, step)
            if not isinstance(below, dict | list):
                raise _Nowhere
            below = self._owned(below)
            node[_index(step, len(node)) if isinstance(node, list) else step] = below
            node = below
        return node

    def _owned(self, container: Any) -> Any:
        if id(container) in self._own:
            return container
        made = container.copy()
        self._own[id(made)] = made
        return made


def _child(node: Any, step: str) -> Any:
    return node[_index(step, len(node))] if isinstance(node, list) else node.get(step)


def _index(text: str, length: int) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (is_digits(digits) and len(digits) < _LONGEST_INDEX):
        raise _Nowhere(f"value was not a proper array index: '{text}'")
    index = int(text)
    if not -length <= index < length:
        raise _Nowhere(f"Unable to access invalid index: {index}: invalid index referenced")
    return index if index >= 0 else index + length


def _unescaped(step: str) -> str:
    """`~1` is a slash and `~0` a tilde, in one pass from left to right."""
    if "~" not in step:
        return step
    parts = step.split("~")
    rest = [{"0": "~", "1": "/"}.get(part[:1], "~" + part[:1]) + part[1:] for part in parts[1:]]
    return parts[0] + "".join(rest)


def _equal(one: Any, two: Any) -> bool:
    """Equality of JSON texts: 1 is neither true nor 1.0."""
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_equal(value, two[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_equal, one, two))
    return type(one) is type(two) and bool(one == two)
