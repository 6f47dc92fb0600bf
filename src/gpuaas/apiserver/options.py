"""The options of writes and lists, as queries carry them: read once, refused in the name of the options' own kinds."""

import re
from collections.abc import Mapping, Sequence

from gpuaas.apiserver.operation import Operation
from gpuaas.apiserver.requestinfo import RequestInfo
from gpuaas.base.errors import BadRequest, Invalid
from gpuaas.base.fielderrors import FieldError, forbidden, not_supported
from gpuaas.machinery import ssa

_AMOUNT = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"  # unambiguous, so that a search does not try each way to split digits
_NUMBER = re.compile(rf"[+-]?{_AMOUNT}")
_UNIT = re.compile(rf"[+-]?{_AMOUNT}([^0-9.]+)")
_SPAN = re.compile(rf"[+-]?(?:0|(?:{_AMOUNT}(?:ns|us|µs|μs|ms|s|m|h))+)")
_LEVELS = ("", "Ignore", "Strict", "Warn")
_KINDS = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}


def read_write_options(op: Operation, info: RequestInfo, user_agent: str, *, applies: bool = False) -> None:
    """Options of create, update and patch. `applies`: the patch is a server-side apply."""
    query = info.query
    if not query:
        op.manager = manager_of(user_agent)
        if applies:
            _refuse("PatchOptions", ssa.patch_problems("", None, applies=True))
        return
    manager, level = query.get("fieldManager", ""), query.get("fieldValidation", "")
    dry_run = info.multi.get("dryRun", ())
    op.force = info.flag("force")
    if op.verb == "patch":
        problems = ssa.patch_problems(manager, op.force if "force" in query else None, applies=applies)
    else:
        problems = ssa.manager_problems(manager)
    problems += dry_run_problems(dry_run)
    if level not in _LEVELS:
        problems.append(not_supported("fieldValidation", level, _LEVELS))
    _refuse(_KINDS[op.verb], problems)
    op.dry_run = bool(dry_run)
    op.manager = manager or manager_of(user_agent)
    op.field_validation = level or "Warn"


def check_timeout(info: RequestInfo) -> None:
    """How long a client is ready to wait must be a span of time as Go writes it; no request waits that long here."""
    text = info.query.get("timeout")
    if not text or info.verb == "watch" or _SPAN.fullmatch(text):
        return
    quoted = f'"{text}"'
    if _NUMBER.fullmatch(text):
        why = f"time: missing unit in duration {quoted}"
    elif found := _UNIT.fullmatch(text):
        why = f'time: unknown unit "{found[1]}" in duration {quoted}'
    else:
        why = f"time: invalid duration {quoted}"
    raise BadRequest(f"invalid timeout specified in the request URL - {why}")


def dry_run_problems(values: Sequence[str]) -> list[FieldError]:
    return [] if all(value == "All" for value in values) else [not_supported("dryRun", list(values), ("All",))]


def manager_of(user_agent: str) -> str:
    """Who does not say its name is known by the program it uses."""
    name = user_agent.partition("/")[0]
    return "".join(char for char in name if char.isprintable())[:128] or "unknown"


def check_list(query: Mapping[str, str], *, watches: bool) -> None:
    """What the options of a list or watch may not say together."""
    match, send = query.get("resourceVersionMatch", ""), query.get("sendInitialEvents")
    if not match and send is None:
        return
    problems = _watch_problems(query, match, send) if watches else _list_problems(query, match, send)
    _refuse("ListOptions", problems)


def _list_problems(query: Mapping[str, str], match: str, send: str | None) -> list[FieldError]:
    problems: list[FieldError] = []
    revision = query.get("resourceVersion", "")
    if match and not revision:
        problems.append(
            forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided")
        )
    if match:
        problems += _continued(query)
    if match not in ("", "Exact", "NotOlderThan"):
        problems.append(not_supported("resourceVersionMatch", match, ("Exact", "NotOlderThan", ""), in_order=True))
    if match == "Exact" and revision == "0":
        problems.append(
            forbidden("resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
        )
    if send is not None:
        problems.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return problems


def _watch_problems(query: Mapping[str, str], match: str, send: str | None) -> list[FieldError]:
    problems: list[FieldError] = []
    if send is not None and match != "NotOlderThan":
        problems.append(
            forbidden("resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        )
    if match and send is None:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        problems.append(forbidden("resourceVersionMatch", why))
    if match not in ("", "NotOlderThan"):
        problems.append(not_supported("resourceVersionMatch", match, ("NotOlderThan",)))
    return problems + (_continued(query) if match else [])


def _continued(query: Mapping[str, str]) -> list[FieldError]:
    if not query.get("continue"):
        return []
    return [forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")]


def _refuse(kind: str, problems: list[FieldError]) -> None:
    if problems:
        raise Invalid("meta.k8s.io", kind, "", problems)
