"""The row of a pod: the one-word status that sums up its phase and its containers, readiness, restarts.

The word follows kube-apiserver's printer step by step, because people read it every day: the phase, then the pod's
own reason, then what its init containers wait for, then its containers from last to first, then deletion.
"""

from typing import Any

from gpuaas.api.durations import human_duration
from gpuaas.api.kubernetes.tables.cells import Cells, View, columns, condition, is_true, object_age, part
from gpuaas.base.clock import parse_rfc3339

POD_COLUMNS = columns("Ready|Status|Restarts|Age|+IP|+Node|+Nominated Node|+Readiness Gates")


def pod_row(pod: View, now: float) -> Cells:
    summary = _Summary(pod)
    addresses = part(pod, "status").get("podIPs") or [{}]
    return [
        f"{summary.ready}/{summary.total}",
        summary.word,
        summary.restarts_text(now),
        object_age(pod, now),
        addresses[0].get("ip") or "<none>",
        part(pod, "spec").get("nodeName") or "<none>",
        part(pod, "status").get("nominatedNodeName") or "<none>",
        _readiness_gates(pod),
    ]


class _Summary:
    def __init__(self, pod: View) -> None:
        self.pod = pod
        spec, status = part(pod, "spec"), part(pod, "status")
        init = spec.get("initContainers") or ()
        self.sidecars = {item.get("name") for item in init if item.get("restartPolicy") == "Always"}
        self.total = len(spec.get("containers") or ()) + len(self.sidecars)
        self.ready = 0
        self.restarts = 0
        self.last_restart = 0.0
        self.word: str = status.get("reason") or status.get("phase") or ""
        if condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
            self.word = "SchedulingGated"
        initializing = self._init_containers(status.get("initContainerStatuses") or (), len(init))
        if not initializing or is_true(pod, "Initialized"):
            self._containers(status.get("containerStatuses") or ())
        self._deletion(status)

    def restarts_text(self, now: float) -> str:
        if not self.restarts or not self.last_restart:
            return str(self.restarts)
        return f"{self.restarts} ({human_duration(now - self.last_restart)} ago)"

    def _init_containers(self, statuses: Any, total: int) -> bool:
        """True while one of them is not done. Restarts of plain init containers count only until then."""
        sidecar_restarts, sidecar_last = 0, 0.0
        waiting = False
        for index, status in enumerate(statuses):
            self._count(status)
            is_sidecar = status.get("name") in self.sidecars
            if is_sidecar:
                sidecar_restarts += status.get("restartCount", 0)
                sidecar_last = max(sidecar_last, _last_end(status))
            if part(status, "state").get("terminated") and not _exit_code(status):
                continue
            if is_sidecar and status.get("started"):
                self.ready += bool(status.get("ready"))
                continue
            self.word = _init_word(status, index, total)
            waiting = True
            break
        if not waiting or is_true(self.pod, "Initialized"):
            self.restarts, self.last_restart = sidecar_restarts, sidecar_last
        return waiting

    def _containers(self, statuses: Any) -> None:
        running = False
        error = ""
        for status in reversed(statuses):
            self._count(status)
            state = part(status, "state")
            if part(state, "waiting").get("reason"):
                self.word = state["waiting"]["reason"]
            elif state.get("terminated") is not None:
                self.word = _end_word(state["terminated"])
                error = self.word if _exit_code(status) else error
            elif status.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.word != "Completed":
            return
        if running and is_true(self.pod, "Ready"):
            self.word = "Running"
        elif error:
            self.word = error
        elif running:
            self.word = "NotReady"

    def _deletion(self, status: View) -> None:
        if not part(self.pod, "metadata").get("deletionTimestamp"):
            return
        if status.get("reason") == "NodeLost":
            self.word = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            self.word = "Terminating"

    def _count(self, status: View) -> None:
        self.restarts += status.get("restartCount", 0)
        self.last_restart = max(self.last_restart, _last_end(status))


def _exit_code(status: View) -> int:
    return int(part(status, "state", "terminated").get("exitCode", 0))


def _last_end(status: View) -> float:
    finished = part(status, "lastState", "terminated").get("finishedAt")
    return parse_rfc3339(finished) if finished else 0.0


def _init_word(status: View, index: int, total: int) -> str:
    state = part(status, "state")
    waiting = part(state, "waiting").get("reason")
    if state.get("terminated") is not None:
        return f"Init:{_end_word(state['terminated'])}"
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{index}/{total}"


def _end_word(terminated: View) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _readiness_gates(pod: View) -> str:
    gates = part(pod, "spec").get("readinessGates") or ()
    if not gates:
        return "<none>"
    return f"{sum(is_true(pod, gate.get('conditionType', '')) for gate in gates)}/{len(gates)}"
