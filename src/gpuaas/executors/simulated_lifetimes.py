"""The life of a simulated pod as numbers: how long it takes to start, what each container writes, when and how it ends.

Made from the pod (and its job's annotations) alone, so that a control plane that comes back finds the same life again
and nothing about it has to be stored. All containers of the pod spend one budget (module limits).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any

from gpuaas.devices import memory
from gpuaas.devices.holding import held_by, smi
from gpuaas.executors import annotations as wishes
from gpuaas.executors.environment import known_environment
from gpuaas.executors.limits import Budget, ExecRefused, LimitExceeded
from gpuaas.executors.script import Script, read_script, refused

START = 0.1  # seconds from bound to running by default
STOP = 0.02
UNKNOWN_WORK = 5.0  # how long a job runs of which nothing is known
_STEPS = 10


@dataclass(frozen=True, slots=True)
class ContainerLife:
    name: str
    script: Script


@dataclass(frozen=True, slots=True)
class Life:
    start: float
    stop: float
    containers: tuple[ContainerLife, ...]
    before: tuple[ContainerLife, ...] = ()  # init containers, up to the first that fails
    ready_after: float | None = 0.0  # seconds after they started; None: never
    no_image: bool = False
    ending: str = ""  # a reason other than Error or Completed

    @property
    def seconds(self) -> float | None:
        """Until the last container has ended, or the first has passed a limit; None for ever."""
        limited = [one.script.seconds or 0.0 for one in self.containers if one.script.message]
        if limited:
            return min(limited)
        spans = [one.script.seconds for one in self.containers]
        return None if None in spans else max((span for span in spans if span is not None), default=0.0)

    @property
    def decisive(self) -> Script:
        """How it ended, in one: what passed a limit counts before what failed."""
        scripts = [one.script for one in self.containers]
        limited = min((one for one in scripts if one.message), key=lambda one: one.seconds or 0.0, default=None)
        return limited or Script(seconds=self.seconds, exit_code=self.exit_code)

    @property
    def exit_code(self) -> int:
        return next((one.script.exit_code for one in self.containers if one.script.exit_code), 0)

    @property
    def never_starts(self) -> bool:
        return any(one.script.reason == ExecRefused.reason for one in self.containers)

    @property
    def failing(self) -> ContainerLife | None:
        """The init container that keeps the others from starting."""
        last = self.before[-1] if self.before else None
        return last if last is not None and last.script.exit_code else None

    @property
    def start_after(self) -> float:
        """Until its containers start, or will not."""
        return self.start + sum(one.script.seconds or 0.0 for one in self.before)

    def without_lines(self) -> "Life":
        """For who wants to know only when and how it ends: lines take memory."""
        return replace(self, containers=_silent(self.containers), before=_silent(self.before))

    def with_refusals(self, found: Mapping[str, LimitExceeded]) -> "Life":
        """By container, what is refused now that everything it refers to is known."""
        if not found:
            return self
        before = [replace(one, script=refused(found[one.name])) if one.name in found else one for one in self.before]
        failing = next((number for number, one in enumerate(before, 1) if one.script.exit_code), len(before))
        containers = (
            replace(one, script=refused(found[one.name])) if one.name in found else one for one in self.containers
        )
        return replace(self, containers=tuple(containers), before=tuple(before[:failing]))

    def of(self, container: str) -> Script:
        return next((one.script for one in (*self.containers, *self.before) if one.name == container), Script())


def _silent(containers: Sequence[ContainerLife]) -> tuple[ContainerLife, ...]:
    return tuple(replace(one, script=replace(one.script, lines=())) for one in containers)


def life_of(pod: Mapping[str, Any], said: Mapping[str, str], speed: float = 1.0) -> Life:
    """`said` are the annotations of the pod over those of its owners."""
    budget = Budget()
    start, stop = wishes.seconds(said, wishes.START_SECONDS), wishes.seconds(said, wishes.STOP_SECONDS)
    spec = pod["spec"]
    return Life(
        start=(START if start is None else start) / speed,
        stop=((STOP if stop is None else stop) + _hooks_before(spec["containers"], budget)) / speed,
        containers=tuple(
            ContainerLife(one["name"], _faster(_script(pod, one, said, budget), speed)) for one in spec["containers"]
        ),
        before=_before(pod, speed, budget),
        ready_after=_ready_after(spec["containers"], speed, budget),
        no_image=said.get(wishes.FAIL) == wishes.NO_IMAGE,
        ending=wishes.OUT_OF_MEMORY if said.get(wishes.FAIL) == wishes.OUT_OF_MEMORY else "",
    )


def _before(pod: Mapping[str, Any], speed: float, budget: Budget) -> tuple[ContainerLife, ...]:
    """What takes time or fails before the containers start, as far as it can be read; sidecars stay beside them."""
    made: list[ContainerLife] = []
    for one in pod["spec"].get("initContainers") or ():
        if one.get("restartPolicy") == "Always":
            continue
        script = _faster(_read(pod, one, budget), speed)
        made.append(ContainerLife(one["name"], script))
        if script.exit_code:
            break
    return tuple(made)


def _hooks_before(containers: Sequence[Mapping[str, Any]], budget: Budget) -> float:
    """How long what is to be done before the end takes, as far as it can be read; containers do theirs side by side."""
    longest = 0.0
    for one in containers:
        hook = (one.get("lifecycle") or {}).get("preStop") or {}
        if hook.get("sleep"):
            longest = max(longest, float(hook["sleep"].get("seconds") or 0))
        elif hook.get("exec"):
            seconds = read_script(hook["exec"], budget).seconds
            longest = max(longest, math.inf if seconds is None else seconds)
    return longest


def _ready_after(containers: Sequence[Mapping[str, Any]], speed: float, budget: Budget) -> float | None:
    """What a probe asks is answered with yes, no sooner than it is asked; unless it runs a command that can only fail."""
    latest = 0.0
    for one in containers:
        for probe in (one.get("startupProbe"), one.get("readinessProbe")):
            if not probe:
                continue
            asked = probe.get("exec")
            if asked and read_script(asked, budget).exit_code:
                return None
            latest = max(latest, float(probe.get("initialDelaySeconds") or 0))
    return latest / speed


def _read(pod: Mapping[str, Any], container: Mapping[str, Any], budget: Budget) -> Script:
    try:
        environment = known_environment(pod, container, budget)
    except LimitExceeded as error:
        return refused(error)
    notes = (pod.get("metadata") or {}).get("annotations") or {}
    used = memory.mebibytes(notes.get(memory.USED)) or 0
    return read_script(container, budget, environment, partial(smi, held_by(pod), container["name"], used=used))


def _script(pod: Mapping[str, Any], container: Mapping[str, Any], said: Mapping[str, str], budget: Budget) -> Script:
    script = _read(pod, container, budget)
    if script.message:
        return script
    asked, code = wishes.seconds(said, wishes.RUN_SECONDS), wishes.exit_code(said)
    seconds = script.seconds
    if asked is not None:
        seconds = asked
    elif not script.understood and not script.seconds:
        # A server runs until it is stopped; work of unknown length ends some time.
        seconds = None if pod["spec"].get("restartPolicy", "Always") == "Always" else UNKNOWN_WORK
    lines = script.lines
    if not script.understood and seconds:
        lines = (*lines, *_progress(seconds))
    kept = tuple(sorted((line for line in lines if seconds is None or line[0] <= seconds), key=itemgetter(0)))
    return Script(kept, seconds, script.exit_code if code is None else code, script.understood)


def _progress(seconds: float) -> list[tuple[float, str]]:
    return [(seconds * step / _STEPS, f"(simulated) step {step}/{_STEPS}") for step in range(1, _STEPS + 1)]


def _faster(script: Script, speed: float) -> Script:
    if speed == 1.0:
        return script
    lines = tuple((offset / speed, text) for offset, text in script.lines)
    return replace(script, lines=lines, seconds=None if script.seconds is None else script.seconds / speed)
