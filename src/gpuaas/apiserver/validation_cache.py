"""What of a custom object decides whether it is right, so that those that differ in nothing else are looked at once.

Names and whatever else is in the metadata do not, unless its definition speaks of them. What conditions say and since
when they do mostly does not either: a text must not be too long and a time must be one, and both change with every
status, while everything else is the same for thousands of workloads.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from gpuaas.api.kinds import Object
from gpuaas.machinery.schema.formats import format_check

_LONGEST: Final = 1024  # characters of a text that is right wherever texts may have as many
_SINCE, _SAYS = "lastTransitionTime", "message"
_MOST: Final = 2**31 - 1
Path = tuple[str, ...]
"""Keys, and * for every item of a list."""


def content(obj: Mapping[str, Any]) -> Object:
    return {key: value for key, value in obj.items() if key != "metadata"}


def outline(obj: Mapping[str, Any], old: Mapping[str, Any] | None) -> tuple[Any, ...]:
    """The contents of both, without texts and times of those conditions in which they are right; which these are, and
    which are as they were: all that can be asked of them."""
    now, plain = _outline(obj)
    if old is None:
        return now, plain
    before, plain_before = _outline(old)
    known = {_type(each): each for each in _conditions(old)}
    return now, plain, before, plain_before, [known.get(_type(each)) == each for each in _conditions(obj)]


def status_outline(obj: Mapping[str, Any], old: Mapping[str, Any], free: Sequence[Path] = ()) -> tuple[Any, ...]:
    """The same of an object of which nothing but the status is new, with all that decides which places of it change:
    of texts, times and `free` numbers, which are as they were. Rules of our own kinds may look at annotations."""
    said, said_before, counted = obj.get("status"), old.get("status"), []
    for path in free:
        said, said_before, same = _without_numbers(said, said_before, path)
        counted.append(same)
    now, plain = _outlined(said)
    before, plain_before = _outlined(said_before)
    rest = {key: value for key, value in old.items() if key not in ("metadata", "status")}
    known = {_type(each): each for each in _conditions(old)}
    kept = [_kept(known.get(_type(each)), each) for each in _conditions(obj)]
    return rest, now, plain, before, plain_before, kept, counted, old["metadata"].get("annotations")


def _without_numbers(now: Any, before: Any, path: Path) -> tuple[Any, Any, Any]:
    """Both without the numbers at the end of a path, and which of them are the same; as they are where their lists have
    other items, for then it takes more to tell which number was which."""
    counts: list[int] = []
    counts_before: list[int] = []
    bare, bare_before = _noughts(now, path, counts), _noughts(before, path, counts_before)
    if "*" not in path:
        return bare, bare_before, (len(counts), len(counts_before), counts == counts_before)
    listed = path[: path.index("*")]
    if _at(bare, listed) != _at(bare_before, listed):
        return now, before, None
    return bare, bare_before, [one == two for one, two in zip(counts, counts_before, strict=True)]


def _noughts(value: Any, path: Path, found: list[int]) -> Any:
    """The value with a nought for each small number at the end of the path; those go to `found`."""
    key, rest = path[0], path[1:]
    if key == "*":
        return [_noughts(each, rest, found) for each in value] if value.__class__ is list else value
    below = value.get(key) if value.__class__ is dict else None
    if below is None:
        return value
    if rest:
        return {**value, key: _noughts(below, rest, found)}
    if below.__class__ is not int or not 0 <= below <= _MOST:
        return value
    found.append(below)
    return {**value, key: ""}  # which is no number


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value.get(key) if value.__class__ is dict else None
    return value


def _kept(before: Any, condition: Any) -> int:
    if before.__class__ is not dict or condition.__class__ is not dict:
        return 0
    says, since = before.get(_SAYS) == condition.get(_SAYS), before.get(_SINCE) == condition.get(_SINCE)
    return says + 2 * since


def _outline(obj: Mapping[str, Any]) -> tuple[Object, list[int]]:
    found = content(obj)
    status, plain = _outlined(found.get("status"))
    if plain:
        found["status"] = status
    return found, plain


def _outlined(status: Any) -> tuple[Any, list[int]]:
    conditions = _conditions_in(status)
    plain = [at for at, each in enumerate(conditions) if _is_plain(each)]
    if not plain:
        return status, plain
    rest = [{**each, _SINCE: 0, _SAYS: 0} if at in plain else each for at, each in enumerate(conditions)]
    return {**status, "conditions": rest}, plain


def _conditions(obj: Mapping[str, Any]) -> list[Any]:
    return _conditions_in(obj.get("status"))


def _conditions_in(status: Any) -> list[Any]:
    found = status.get("conditions") if isinstance(status, dict) else None
    return found if isinstance(found, list) else []


def _type(condition: Any) -> Any:
    found = condition.get("type") if isinstance(condition, dict) else None
    return found if isinstance(found, str) else None


def asks_no_words(openapi: Mapping[str, Any]) -> bool:
    """Whether a definition asks no more of what conditions say and since when, and no rule speaks of it. A rule may still
    ask whether a whole condition, or all of them, are as they were: that is in the outline. Whether two of them are the
    same it need not ask: each has a type of its own."""
    status = (openapi.get("properties") or {}).get("status") or {}
    conditions = (status.get("properties") or {}).get("conditions") or {}
    fields = (conditions.get("items") or {}).get("properties") or {}
    says, since = _asked(fields.get(_SAYS)), _asked(fields.get(_SINCE))
    return (
        conditions.get("x-kubernetes-list-type") == "map"
        and conditions.get("x-kubernetes-list-map-keys") == ["type"]
        and says.pop("maxLength", _LONGEST) >= _LONGEST
        and says == {"type": "string"}
        and since == {"type": "string", "format": "date-time"}
        and not any(_SAYS in rule or _SINCE in rule for rule in _rules(openapi))
    )


def free_numbers(openapi: Mapping[str, Any], paths: Sequence[str]) -> tuple[Path, ...]:
    """Those of the paths in a status at whose end any number from nought on is right, and of which no rule speaks: none
    names where the way begins, and none on the way where it ends."""
    return tuple(path for path in (tuple(each.split(".")) for each in paths) if _is_free(openapi, path))


def _is_free(openapi: Mapping[str, Any], path: Path) -> bool:
    place: Any = (openapi.get("properties") or {}).get("status") or {}
    first = (place.get("properties") or {}).get(path[0]) or {}
    if any(path[0] in rule for rule in _rules(openapi)) or any(path[-1] in rule for rule in _rules(first)):
        return False
    for key in path:
        place = (place.get("items") if key == "*" else (place.get("properties") or {}).get(key)) or {}
    asked = _asked(place)
    return asked.pop("minimum", 0) <= 0 and asked == {"type": "integer", "format": "int32"}


def _asked(field: Mapping[str, Any] | None) -> Object:
    return {key: value for key, value in (field or {}).items() if key != "description"}


def _rules(openapi: Any) -> Iterator[str]:
    if isinstance(openapi, Mapping):
        for rule in openapi.get("x-kubernetes-validations") or ():
            yield str(rule.get("rule"))
        for key, below in openapi.items():
            if key != "x-kubernetes-validations":
                yield from _rules(below)
    elif isinstance(openapi, list):
        for each in openapi:
            yield from _rules(each)


def _is_plain(condition: Any) -> bool:
    if condition.__class__ is not dict:
        return False
    says, since = condition.get(_SAYS), condition.get(_SINCE)
    return (
        says.__class__ is str
        and len(says) <= _LONGEST
        and since.__class__ is str
        and len(since) <= _LONGEST
        and _is_time(since)
    )


@lru_cache(maxsize=1024)
def _is_time(text: str) -> bool:
    right = format_check("string", "date-time")
    return right is not None and right(text)
