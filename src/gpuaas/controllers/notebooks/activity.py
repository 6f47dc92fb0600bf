"""Last activity of notebooks, and stopping the idle ones.

Each period a running notebook's server is asked for its kernels and terminals; rules and annotations are those of the
original culler (package profiles, module culling). One difference, always: a server that does not answer, or answers
something else, is never taken for idle; nothing is written then, and it is asked again.

The settings are the original's, in ConfigMap notebook-controller-culler-config of the applications namespace:
ENABLE_CULLING, CULL_IDLE_TIME and IDLENESS_CHECK_PERIOD (minutes). Without it activity is recorded and nothing stopped.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.base.errors import NotFound
from gpuaas.client.protocol import Object
from gpuaas.client.resources import CONFIG_MAPS, PODS
from gpuaas.controllers.notebooks.controller import NOTEBOOKS, STOPPED, notebook_of
from gpuaas.profiles.culling import Kernel, Seen, check
from gpuaas.profiles.notebook_state import BECAUSE, is_stopped
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL
from gpuaas.runtime.metadata import Key, annotations_of, is_deleting, uid_of
from gpuaas.runtime.pods import is_ready

LAST_ACTIVITY: Final = "notebooks.kubeflow.org/last-activity"
LAST_CHECK: Final = "notebooks.kubeflow.org/last_activity_check_timestamp"
CONFIG: Final = "notebook-controller-culler-config"
_NAMESPACES: Final = ("redhat-ods-applications", "opendatahub")
_MOST: Final = 1000  # kernels or terminals of one notebook that are looked at

Ask = Callable[[str, str, str], Awaitable[tuple[Any, Any] | None]]
"""(pod uid, namespace, notebook) -> its server's kernels and terminals, decoded; None where it does not answer."""


@dataclass(frozen=True, slots=True)
class Culling:
    """Seconds. Upstream's defaults: a day of idleness, a look a minute, and culling off."""

    on: bool = False
    idle_after: float = 1440 * 60.0
    period: float = 60.0


def read_settings(data: Mapping[str, Any]) -> Culling:
    """What cannot be read as minutes is the default, as upstream has it; parts of minutes are allowed here."""

    def minutes(name: str, usual: float) -> float:
        try:
            found = float(str(data.get(name, "")))
        except ValueError:
            return usual
        return found * 60 if math.isfinite(found) and found >= 0 else usual

    usual = Culling()
    period = minutes("IDLENESS_CHECK_PERIOD", usual.period)
    return Culling(data.get("ENABLE_CULLING") == "true", minutes("CULL_IDLE_TIME", usual.idle_after), max(period, 0.05))


def read_kernels(answer: Any) -> list[Kernel] | None:
    """None for what is no list of kernels: then nothing is known."""
    if not isinstance(answer, list) or len(answer) > _MOST or not all(isinstance(one, Mapping) for one in answer):
        return None
    return [Kernel(str(one.get("execution_state", "")), _moment(one.get("last_activity"))) for one in answer]


def read_terminals(answer: Any) -> list[float] | None:
    if not isinstance(answer, list) or len(answer) > _MOST or not all(isinstance(one, Mapping) for one in answer):
        return None
    found = [_moment(one.get("last_activity")) for one in answer]
    return [each for each in found if each is not None]


def _moment(text: Any) -> float | None:
    try:
        return parse_rfc3339(text) if isinstance(text, str) else None
    except ValueError:
        return None


class NotebookActivity(Controller):
    name = "notebook-activity"
    component = "notebook-controller"
    workers = 4
    patient = True

    def __init__(self, deps: Deps, ask: Ask) -> None:
        super().__init__(deps)
        self._ask = ask
        self._notebooks = self.follow(deps.informers.of(NOTEBOOKS), by=_concerns)
        self._pods = self.follow(deps.informers.of(PODS), notebook_of, by=is_ready)

    async def reconcile(self, key: Key) -> Requeue | None:
        notebook = self._notebooks.get(*key)
        if notebook is None or is_deleting(notebook):
            return None
        pod = self._pods.get(key.namespace, f"{key.name}-0")
        if STOPPED in annotations_of(notebook) or pod is None:
            await self._forget(notebook)
            return None
        settings = await self._settings()
        if is_ready(pod):
            await self._look(key, notebook, uid_of(pod), settings)
        return Requeue(settings.period)

    async def _look(self, key: Key, notebook: Object, uid: str, settings: Culling) -> None:
        known, now = annotations_of(notebook), self.clock.now()
        if LAST_ACTIVITY not in known:
            await self._annotate(notebook, {LAST_ACTIVITY: rfc3339(now), LAST_CHECK: rfc3339(now)})
            return
        answer = await self._ask(uid, key.namespace, key.name)
        kernels, terminals = (None, None) if answer is None else (read_kernels(answer[0]), read_terminals(answer[1]))
        if kernels is None or terminals is None:
            return
        seen = Seen(_moment(known[LAST_ACTIVITY]), _moment(known.get(LAST_CHECK)), kernels, terminals)
        verdict = check(seen, self.clock.now(), idle_after=settings.idle_after, period=settings.period)
        activity = verdict.last_activity
        if activity is not None and rfc3339(activity) != known[LAST_ACTIVITY]:  # annotations hold whole seconds
            at = {LAST_ACTIVITY: rfc3339(activity), LAST_CHECK: rfc3339(self.clock.now())}
            await self._annotate(notebook, at)
        elif settings.on and verdict.idle:
            await self._stop(notebook, settings)

    async def _stop(self, notebook: Object, settings: Culling) -> None:
        latest = self._notebooks.get(notebook["metadata"]["namespace"], notebook["metadata"]["name"])
        if latest is None or STOPPED in annotations_of(latest):
            return
        minutes = settings.idle_after / 60
        words = f"idle for {minutes:g} minutes"
        self.recorder.event(NOTEBOOKS, notebook, NORMAL, "NotebookCulled", f"Stopped: {words}")
        gone = {LAST_ACTIVITY: None, LAST_CHECK: None}
        await self._annotate(notebook, {STOPPED: rfc3339(self.clock.now()), BECAUSE: words, **gone})

    async def _forget(self, notebook: Object) -> None:
        """Of one that does not run nothing is known."""
        gone: dict[str, str | None] = {
            name: None for name in (LAST_ACTIVITY, LAST_CHECK) if name in annotations_of(notebook)
        }
        if BECAUSE in annotations_of(notebook) and not is_stopped(notebook):
            gone[BECAUSE] = None
        if gone:
            await self._annotate(notebook, gone)

    async def _annotate(self, notebook: Object, annotations: Mapping[str, str | None]) -> None:
        metadata = notebook["metadata"]
        patch = {"metadata": {"annotations": dict(annotations)}}
        try:
            await self.client.patch(NOTEBOOKS, metadata["name"], patch, metadata["namespace"])
        except NotFound:
            return

    async def _settings(self) -> Culling:
        for namespace in _NAMESPACES:
            try:
                found = await self.client.get(CONFIG_MAPS, CONFIG, namespace)
            except NotFound:
                continue
            return read_settings(found.get("data") or {})
        return Culling()


def _concerns(notebook: Mapping[str, Any]) -> Any:
    """What makes a look necessary before the period is over: not that its last activity was just written."""
    return annotations_of(notebook).get(STOPPED), is_deleting(notebook)
