"""What is wrong with managers' names: in the options of a request, and in a managedFields list from a client."""

from collections.abc import Sequence
from typing import Any, Final

from gpuaas.base.fielderrors import FieldError, child, forbidden, invalid, required, too_long

MAX_MANAGER_BYTES: Final = 128
MAX_SUBRESOURCE_BYTES: Final = 256


def manager_problems(name: str, path: str = "fieldManager") -> list[FieldError]:
    """A manager has at most 128 bytes, all of them printable; none at all is for the caller to judge."""
    problems = [too_long(path, MAX_MANAGER_BYTES)] if len(name.encode()) > MAX_MANAGER_BYTES else []
    place = 0  # in bytes, as Go counts
    for char in name:
        if not char.isprintable():
            shown = f"U+{ord(char):04X}"
            problems.append(invalid(path, name, f"invalid character {shown} (at position {place})"))
        place += len(char.encode())
    return problems


def patch_problems(manager: str, force: bool | None, *, applies: bool) -> list[FieldError]:
    """The options of a patch request: an apply needs a manager, and only an apply can be forced."""
    problems: list[FieldError] = []
    if applies and not manager:
        problems.append(required("fieldManager", "is required for apply patch"))
    if not applies and force is not None:
        problems.append(forbidden("force", "may not be specified for non-apply patch"))
    return problems + manager_problems(manager)


def managed_fields_problems(
    entries: Sequence[dict[str, Any]], path: str = "metadata.managedFields"
) -> list[FieldError]:
    """A list that could be read (module managed), and may still hold names that are too long."""
    problems: list[FieldError] = []
    for index, entry in enumerate(entries):
        problems += manager_problems(entry.get("manager", ""), child(path, index, "manager"))
        if len(entry.get("subresource", "").encode()) > MAX_SUBRESOURCE_BYTES:
            problems.append(too_long(child(path, index, "subresource"), MAX_SUBRESOURCE_BYTES))
    return problems
