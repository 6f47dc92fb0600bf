"""The page of events: every place in the source that records one, with what it can say and in whose name."""

import ast
import importlib
import inspect
import itertools
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from docs_build.markdown import code, codes, table
from docs_build.reading import UNKNOWN, Call, Where, constant, passed, texts, truth
from docs_build.source import Source
from gpuaas.runtime.controller import Controller, Loop

_INTRODUCTION: Final = (
    "Events belong to objects: `kubectl describe` shows them below the object, `kubectl events` in order of time. They are"
    f" kept for an hour. {UNKNOWN} stands for a part that is known only at run time. Reasons, messages and component names"
    " are those of Kubernetes, Kueue and the operators of the kinds. With the feature gate `UnadmittedWorkloadsObservability`"
    " ([configuration](../guides/configuration.md)) finer reasons stand in place of `Pending`. On an object of any kind that a"
    " part of the control plane cannot handle, `SetAside` (a Warning, by `gpuaas`) names the part and the reason."
)
_AREAS: Final = {
    "Admission": ("gpuaas.controllers.kueue",),
    "Jobs that queue": ("gpuaas.controllers.integrations",),
    "Pods and nodes": (
        "gpuaas.executors",
        "gpuaas.controllers.gpu_nodes",
        "gpuaas.controllers.node_lifecycle",
        "gpuaas.controllers.pod_scheduler",
    ),
    "Kubernetes' workloads": tuple(
        f"gpuaas.controllers.{name}"
        for name in (
            "cron_jobs",
            "daemon_sets",
            "deployments",
            "disruption",
            "garbage",
            "jobs",
            "replica_sets",
            "stateful_sets",
        )
    ),
    "Integrations": ("gpuaas.controllers",),
}
_MANY: Final = 6  # kinds that are named
_EVERY: Final = "every kind that queues"
_FEW: Final = 4  # components that are named
_WORDS: Final = 4  # ways to say it that are shown


@dataclass(frozen=True)
class _Telling:
    reason: str
    type: str
    kind: str
    component: str
    area: str
    words: str


def body() -> str:
    importlib.import_module("gpuaas.assembly.start_controllers")  # and with it every controller
    tellings = set(_tellings(Source()))
    parts = [_INTRODUCTION]
    for area in _AREAS:
        parts += [f"## {area}", _table([each for each in tellings if each.area == area])]
    return "\n\n".join(parts)


def _table(tellings: Iterable[_Telling]) -> str:
    """One row for each reason of a kind; kinds of which the same is told share theirs."""
    found: dict[tuple[str, str, str, str], set[str]] = {}
    for each in tellings:
        found.setdefault((each.reason, each.type, each.kind, each.component), set()).add(each.words)
    rows: dict[tuple[str, str, tuple[str, ...]], list[tuple[str, str]]] = {}
    for (reason, type_, kind, component), words in sorted(found.items()):
        rows.setdefault((reason, type_, tuple(sorted(words))), []).append((kind, component))
    lines = sorted(
        (_kinds([kind for kind, _ in by]), reason, type_, words, by) for (reason, type_, words), by in rows.items()
    )
    return table(
        ("about", "reason", "type", "words", "told by"),
        [(about, code(reason), type_, _said(words), _components(by)) for about, reason, type_, words, by in lines],
    )


def _kinds(kinds: list[str]) -> str:
    return ", ".join(sorted(set(kinds))) if len(set(kinds)) <= _MANY else _EVERY


def _components(by: list[tuple[str, str]]) -> str:
    """Of many only the end is told, which they have in common."""
    names = sorted({component for _, component in by})
    if len(names) <= _FEW:
        return codes(names)
    ends = {name.rpartition("/")[2].partition("-")[2] for name in names}
    return codes(f"{UNKNOWN}-{end}" for end in sorted(ends))


def _said(words: tuple[str, ...]) -> str:
    told = [each for each in words if each != UNKNOWN] or [UNKNOWN]
    return " / ".join(told[:_WORDS]) + (f" / {UNKNOWN}" if len(told) > _WORDS else "")


def _tellings(source: Source) -> Iterator[_Telling]:
    for call in source.calls["event"]:
        if _records(call):
            found = [*_told(source, call)]
            if not found:
                raise ValueError(f"{call.where.module}:{call.node.lineno}: who tells this, and what, cannot be read")
            known = any(each.reason != UNKNOWN for each in found)
            yield from (each for each in found if each.reason != UNKNOWN or not known)


def _records(call: Call) -> bool:
    called = call.node.func
    return (
        isinstance(called, ast.Attribute)
        and ast.unparse(called.value).endswith("recorder")
        and len(call.node.args) == 5
    )


def _told(source: Source, call: Call) -> Iterator[_Telling]:
    assert isinstance(call.node.func, ast.Attribute)
    resource, _, type_, reason, message = call.node.args
    for way in source.ways([reason, type_], [message], call.where):
        if not _comes_about(Call(call.node, way)):
            continue
        tellers = [*_tellers(source, call.node.func.value, resource, way)]
        for said, level, words in itertools.product(texts(reason, way), texts(type_, way), texts(message, way)):
            yield from (_Telling(said, level, kind, by, area, words) for by, kind, area in tellers if said)


def _comes_about(call: Call) -> bool:
    """Not where it stands under an `if` that is known not to hold, nor where its caller does."""
    way = call.where
    if way.function is None:
        return True
    guards = [each for each in ast.walk(way.function) if isinstance(each, ast.If)]
    above = [each for each in guards if any(call.node in ast.walk(inner) for inner in each.body)]
    if any(truth(each.test, way) is False for each in above):
        return False
    return way.caller is None or _comes_about(way.caller)


# In whose name, and about what.


def _tellers(source: Source, receiver: ast.expr, resource: ast.expr, where: Where) -> Iterator[tuple[str, str, str]]:
    """Component, kind and area: of the controller itself, or of all that make such a helper."""
    owner = getattr(where.loaded, where.owner, None)
    if not isinstance(owner, type):
        return
    if issubclass(owner, Controller):
        for concrete in _concrete(_narrowed(owner, where)):
            component = _component(receiver, where) or concrete.component
            yield component, _kind(resource, where, concrete), _area(concrete)
        return
    if issubclass(owner, Loop) and (component := _of_loop(owner)):
        yield component, _kind(resource, where, owner), _area(owner)
        return
    for maker in source.makers(owner):
        given = _given(owner, maker)
        yield from _tellers(source, _seen_from(receiver, given), _seen_from(resource, given), maker.where)


def _narrowed(owner: type[Controller], where: Where) -> type[Controller]:
    """A method that a subclass alone calls is that one's."""
    while where.caller is not None:
        where = where.caller.where
        found = getattr(where.loaded, where.owner, None)
        if isinstance(found, type) and issubclass(found, owner):
            owner = found
    return owner


def _concrete(owner: type[Controller]) -> Iterator[type[Controller]]:
    if owner.component:
        yield owner
    for each in owner.__subclasses__():
        if each.__module__.startswith(("gpuaas.", "abc")):  # those of a table are made by a call, and tests have theirs
            yield from _concrete(each)


def _of_loop(owner: type[Loop]) -> str:
    """The name for which a loop that is no controller makes its recorder: `self.recorder = ….recorder("name")`."""
    begin = vars(owner).get("__init__")
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(begin)))) if begin is not None else ():
        match node:
            case ast.Assign(
                [ast.Attribute(ast.Name("self"), "recorder")],
                ast.Call(ast.Attribute(_, "recorder"), [ast.Constant(str(name)), *_]),
            ):
                return name
    return ""


def _component(receiver: ast.expr, where: Where) -> str:
    """Of a recorder made for another name than the controller's own."""
    if where.function is None or not isinstance(receiver, ast.Name):
        return ""
    for node in ast.walk(where.function):
        match node:
            case ast.Assign([ast.Name(name)], ast.Call(ast.Attribute(_, "recorder"), [argument, *_])) if (
                name == receiver.id
            ):
                return texts(argument, where)[0]
    return ""


def _kind(resource: ast.expr, where: Where, concrete: type[Loop]) -> str:
    if not ast.unparse(resource).startswith("self."):
        return getattr(constant(resource, where), "kind", "any kind")
    found: Any = concrete
    for part in ast.unparse(resource).split(".")[1:]:
        found = getattr(found, part, None) or concrete.__annotations__.get(part)
    return getattr(found, "kind", "any kind")


def _area(concrete: type[Loop]) -> str:
    modules = [each.__module__ for each in concrete.__mro__ if each.__module__.startswith("gpuaas.")]
    return next(area for area, names in _AREAS.items() if modules[0].startswith(names))


def _given(owner: type, maker: Call) -> dict[str, ast.expr]:
    """What the helper keeps of what it is made with, by its attribute."""
    begin = ast.parse(textwrap.dedent(inspect.getsource(vars(owner)["__init__"]))).body[0]
    assert isinstance(begin, ast.FunctionDef)
    arguments = passed(begin, maker.node)
    kept = {}
    for node in ast.walk(begin):
        match node:
            case ast.Assign([ast.Attribute(ast.Name("self"), attribute)], ast.Name(name)) if name in arguments:
                kept[attribute] = arguments[name]
    return kept


def _seen_from(expression: ast.expr, given: dict[str, ast.expr]) -> ast.expr:
    """An expression about the helper's attributes, as its maker would write it."""
    match expression:
        case ast.Attribute(ast.Name("self"), attribute):
            return given.get(attribute, expression)
        case ast.Attribute(value, attribute):
            return ast.Attribute(_seen_from(value, given), attribute)
    return expression
