"""The life of a simulated pod as numbers: how long it takes to start, what each container writes, when and how it ends.

Made from the pod (and its job's annotations) alone, so that a control plane that comes back finds the same life again
and nothing about it has to be stored.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuaas.executors import annotations as wishes
from gpuaas.executors.environment import known_values
from gpuaas.executors.script import Script, read_script

START = 0.1  # seconds from bound to running where nobody says otherwise
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
        """Until the last container has ended; None for ever."""
        spans = [one.script.seconds for one in self.containers]
        return None if None in spans else max((span for span in spans if span is not None), default=0.0)

    @property
    def exit_code(self) -> int:
        return next((one.script.exit_code for one in self.containers if one.script.exit_code), 0)

    @property
    def failing(self) -> ContainerLife | None:
        """The init container that keeps the others from starting."""
        last = self.before[-1] if self.before else None
        return last if last is not None and last.script.exit_code else None

    @property
    def start_after(self) -> float:
        """Until its containers start, or will not."""
        return self.start + sum(one.script.seconds or 0.0 for one in self.before)

    def of(self, container: str) -> Script:
        return next((one.script for one in (*self.containers, *self.before) if one.name == container), Script())


def life_of(pod: Mapping[str, Any], said: Mapping[str, str], speed: float = 1.0) -> Life:
    """`said` are the annotations of the pod over those of its owners."""
    start, stop = wishes.seconds(said, wishes.START_SECONDS), wishes.seconds(said, wishes.STOP_SECONDS)
    spec = pod["spec"]
    return Life(
        start=(START if start is None else start) / speed,
        stop=((STOP if stop is None else stop) + _hooks_before(spec["containers"])) / speed,
        containers=tuple(
            ContainerLife(one["name"], _faster(_script(one, spec, said, known_values(pod, one)), speed))
            for one in spec["containers"]
        ),
        before=_before(pod, speed),
        ready_after=_ready_after(spec["containers"], speed),
        no_image=said.get(wishes.FAIL) == wishes.NO_IMAGE,
        ending=wishes.OUT_OF_MEMORY if said.get(wishes.FAIL) == wishes.OUT_OF_MEMORY else "",
    )


def _before(pod: Mapping[str, Any], speed: float) -> tuple[ContainerLife, ...]:
    """What takes time or fails before the containers start, as far as it can be read; sidecars stay beside them."""
    made: list[ContainerLife] = []
    for one in pod["spec"].get("initContainers") or ():
        if one.get("restartPolicy") == "Always":
            continue
        script = _faster(read_script(one, known_values(pod, one)), speed)
        made.append(ContainerLife(one["name"], script))
        if script.exit_code:
            break
    return tuple(made)


def _hooks_before(containers: Sequence[Mapping[str, Any]]) -> float:
    """How long what is to be done before the end takes, as far as it can be read; containers do theirs side by side."""
    longest = 0.0
    for one in containers:
        hook = (one.get("lifecycle") or {}).get("preStop") or {}
        if hook.get("sleep"):
            longest = max(longest, float(hook["sleep"].get("seconds") or 0))
        elif hook.get("exec"):
            seconds = read_script(hook["exec"]).seconds
            longest = max(longest, math.inf if seconds is None else seconds)
    return longest


def _ready_after(containers: Sequence[Mapping[str, Any]], speed: float) -> float | None:
    """What a probe asks is answered with yes, no sooner than it is asked; unless it runs a command that can only fail."""
    latest = 0.0
    for one in containers:
        for probe in (one.get("startupProbe"), one.get("readinessProbe")):
            if not probe:
                continue
            asked = probe.get("exec")
            if asked and read_script(asked).exit_code:
                return None
            latest = max(latest, float(probe.get("initialDelaySeconds") or 0))
    return latest / speed


def _script(
    container: Mapping[str, Any], spec: Mapping[str, Any], said: Mapping[str, str], values: Mapping[str, str]
) -> Script:
    script = read_script(container, values)
    asked, code = wishes.seconds(said, wishes.RUN_SECONDS), wishes.exit_code(said)
    seconds = script.seconds
    if asked is not None:
        seconds = asked
    elif not script.understood and not script.seconds:
        # A server runs until it is told to end; work of unknown length ends some time.
        seconds = None if spec.get("restartPolicy", "Always") == "Always" else UNKNOWN_WORK
    lines = script.lines
    if not script.understood and seconds:
        lines = (*lines, *_progress(seconds))
    kept = tuple(line for line in lines if seconds is None or line[0] <= seconds)
    return Script(kept, seconds, script.exit_code if code is None else code, script.understood)


def _progress(seconds: float) -> list[tuple[float, str]]:
    return [(seconds * step / _STEPS, f"(simulated) step {step}/{_STEPS}") for step in range(1, _STEPS + 1)]


def _faster(script: Script, speed: float) -> Script:
    if speed == 1.0:
        return script
    lines = tuple((offset / speed, text) for offset, text in script.lines)
    seconds = None if script.seconds is None else script.seconds / speed
    return Script(lines, seconds, script.exit_code, script.understood)
