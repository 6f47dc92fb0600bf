"""What is due for one dispatched workload: a pure function of the hub's workload and its copies on the workers.

`decide` follows upstream's order of looking (kueue 0.19 `multikueue/workload.go`): end, eviction, changed spec, winner,
nomination. The result is a list of actions, each idempotent: the loop reads the state again after it has carried them out. Where `State.strict` is false it departs from upstream in four places, each marked `Ours`:

* a copy whose cluster left the configuration is kept while it runs; only its successors go elsewhere;
* once `clusterName` is set it names the winner, whatever other copy was admitted earlier;
* the copy of a lost worker that comes back while nothing has replaced it runs on;
* when a worker is declared lost, the job on the hub stops counting its pods, which frees the quota at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuaas.base.clock import parse_rfc3339
from gpuaas.engine.values import CheckState
from gpuaas.kueue.multikueue.copies import only_priority_differs, same_spec
from gpuaas.kueue.multikueue.names import LOST, MOST_NOMINATED, OUT_OF_SYNC
from gpuaas.kueue.workload_state import conditions_of, holds

Object = dict[str, Any]
View = Mapping[str, Any]

SYNC_AGAIN = 2.0
"""Seconds until a status that could not be copied yet is tried again."""


@dataclass(frozen=True, slots=True)
class Remote:
    """One worker cluster as far as this workload is concerned."""

    name: str
    connected: bool
    workload: View | None = None
    """The copy there; only what this hub made."""
    offered: bool = True
    """Whether the configuration lists the cluster: others keep what runs there and get nothing new."""
    usable: bool = True
    """Whether jobs of this kind can be made there."""
    lost_since: float | None = None


@dataclass(frozen=True, slots=True)
class State:
    workload: View
    check: View
    """Its entry of `status.admissionChecks`."""
    remotes: Sequence[Remote]
    """In the order of the configuration; clusters that left it come last."""
    now: float
    lost_timeout: float
    nominates: Sequence[str] | None = None
    """The clusters the dispatcher nominates; None: an external dispatcher writes `nominatedClusterNames`."""
    redispatch_lost: bool = True
    keep_finished: float = 0.0
    """Seconds for which the copy of a finished workload stays, so that its logs can be read."""
    wall: float = 0.0
    """The time as conditions tell it; `now` is the one that losses are measured by."""
    strict: bool = False


# Actions.


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the remote job, then the copy of the workload."""

    cluster: str


@dataclass(frozen=True, slots=True)
class Create:
    cluster: str


@dataclass(frozen=True, slots=True)
class Nominate:
    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Set the check's state and message; `cluster` becomes `status.clusterName`."""

    state: CheckState
    message: str
    cluster: str = ""
    event: str = ""
    """The type of the event to record; empty: none."""


@dataclass(frozen=True, slots=True)
class Sync:
    """Make the remote job where it is missing, else copy its status to the hub's."""

    cluster: str
    create: bool = True


@dataclass(frozen=True, slots=True)
class Finish:
    """Copy the job's last status, then set the hub's workload Finished with the copy's reason and message."""

    cluster: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Deactivate:
    cluster: str
    message: str


@dataclass(frozen=True, slots=True)
class Reprioritize:
    cluster: str


@dataclass(frozen=True, slots=True)
class ClearActive:
    """Zero the counts of running pods in the hub's job, so that its quota is released."""


Action = Delete | Create | Nominate | Answer | Sync | Finish | Deactivate | Reprioritize | ClearActive


@dataclass(frozen=True, slots=True)
class Plan:
    actions: tuple[Action, ...] = ()
    again: float | None = None
    """Seconds until the next look, if nothing happens before."""


@dataclass(slots=True)
class _Look:
    state: State
    actions: list[Action] = field(default_factory=list)

    @property
    def local(self) -> View:
        return self.state.workload

    @property
    def cluster(self) -> str:
        return str((self.local.get("status") or {}).get("clusterName") or "")

    @property
    def ready(self) -> bool:
        return bool(self.state.check.get("state") == "Ready")

    def copies(self) -> list[tuple[Remote, View]]:
        return [(each, each.workload) for each in self.state.remotes if each.connected and each.workload is not None]

    def do(self, *actions: Action) -> None:
        self.actions += actions

    def plan(self, again: float | None = None) -> Plan:
        return Plan(tuple(self.actions), again)

    def retry(self, why: str, *, stop: str = ",", event: str = "") -> None:
        previously = self.state.check.get("state", "Pending")
        self.do(Answer("Retry", f'{why}{stop} Previously: "{previously}"', event=event))


def rejected(why: str, check: View) -> Answer:
    """The workload cannot be dispatched at all."""
    return Answer("Rejected", f'{why}, Previously: "{check.get("state", "Pending")}"')


def decide(state: State) -> Plan:
    look = _Look(state)
    if state.check.get("state") == "Rejected":
        return look.plan()
    if holds(state.workload, "Finished") or not holds(state.workload, "QuotaReserved"):
        return _without_quota(look)
    for step in (_ended, _evicted_there, _changed, _running):
        plan = step(look)
        if plan is not None:
            return plan
    return _nomination(look)


def is_lost(workload: View) -> bool:
    """Whether its last eviction was for a worker that could not be reached."""
    evicted = conditions_of(workload).get("Evicted") or {}
    return evicted.get("reason") == "AdmissionCheck" and LOST in str(evicted.get("message"))


# The steps, in their order.


def _without_quota(look: _Look) -> Plan:
    """Finished or without quota: delete every copy, except one that `_returned` or `_readable_for` keeps."""
    kept = _returned(look) if not holds(look.local, "Finished") else None
    rest = _readable_for(look)
    for remote, copy in look.copies():
        if rest > 0 and remote.name == look.cluster and holds(copy, "Finished"):
            continue
        if kept is not None and remote.name == kept[0].name:
            finished = conditions_of(copy).get("Finished") or {}
            if finished.get("status") == "True" and finished.get("reason") != OUT_OF_SYNC:
                look.do(Finish(remote.name, finished.get("reason", ""), finished.get("message", "")))
            continue
        look.do(Delete(remote.name))
    return look.plan(rest if rest > 0 and look.copies() else None)


def _readable_for(look: _Look) -> float:
    """Ours: how much longer the copy of a finished workload stays."""
    if look.state.strict or not holds(look.local, "Finished"):
        return 0.0
    return _since(look.local, "Finished") + look.state.keep_finished - look.state.wall


def _returned(look: _Look) -> tuple[Remote, View] | None:
    """Ours: the copy of a worker that was lost and is back, still running or done, while nothing has replaced it."""
    if look.state.strict or not is_lost(look.local) or not look.local["spec"].get("active", True):
        return None
    found = [
        each
        for each in look.copies()
        if (holds(each[1], "Admitted") and not holds(each[1], "Evicted") and each[1]["spec"].get("active", True))
        or holds(each[1], "Finished")
    ]
    return _earliest(found, "Finished") or _earliest(found, "Admitted")


def _ended(look: _Look) -> Plan | None:
    ended = _chosen(look, "Finished")
    if ended is None:
        return None
    remote, copy = ended
    condition = conditions_of(copy)["Finished"]
    if condition.get("reason") != OUT_OF_SYNC:
        look.do(Finish(remote.name, condition.get("reason", ""), condition.get("message", "")))
        return look.plan()
    if look.ready:
        words = f'Remote workload on worker cluster "{remote.name}" is out of sync with its user job'
        look.retry(f"{words}, resetting for re-dispatch", event="Warning")
    elif not look.state.strict and not holds(look.local, "Evicted"):
        look.do(Delete(remote.name))  # Ours: it would stay in the way for ever
    return look.plan()


def _evicted_there(look: _Look) -> Plan | None:
    evicted = _chosen(look, "Evicted")
    if evicted is None:
        return None
    remote, _ = evicted
    if holds(look.local, "Evicted"):
        look.do(Sync(remote.name, create=look.state.strict))  # upstream makes the job that was never there
        return look.plan(SYNC_AGAIN)
    if look.ready:
        words = f'Workload evicted on worker cluster: "{look.cluster}", resetting for re-admission'
        look.retry(words, stop=".", event="Normal")
        return look.plan()
    return None


def _changed(look: _Look) -> Plan | None:
    """Copies whose spec differs from the hub's: update the priority, delete any other for a new copy."""
    for remote, copy in look.copies():
        if _is_off(look, copy):
            look.do(Delete(remote.name))
            continue
        if same_spec(look.local["spec"], copy["spec"], classes_rule=not look.state.strict):
            continue
        if only_priority_differs(look.local["spec"], copy["spec"]):
            look.do(Reprioritize(remote.name))
        elif not holds(copy, "Finished"):
            look.do(Delete(remote.name))
    return look.plan() if look.actions else None


def _is_off(look: _Look, copy: View) -> bool:
    """Whether the worker deactivated the copy while the hub's workload is active: it would never be admitted again."""
    on_hub = look.local["spec"].get("active", True) and not holds(look.local, "Evicted")
    return bool(on_hub) and not copy["spec"].get("active", True) and not holds(copy, "Finished")


def _running(look: _Look) -> Plan | None:
    winner = _winner(look)
    if winner is None:
        return _nowhere(look) if look.ready else None
    remote, copy = winner
    evicted = holds(look.local, "Evicted")
    for other, _ in look.copies():
        if other.name != remote.name:
            look.do(Delete(other.name))
    if evicted and not look.state.strict and is_lost(look.local):
        look.do(ClearActive())  # Ours: it waits for quota again and finds this copy running
        return look.plan()
    if evicted:
        if not holds(copy, "DeactivationTarget") and copy["spec"].get("active", True):
            words = (conditions_of(look.local)["Evicted"]).get("message", "")
            look.do(Deactivate(remote.name, f"Evicted on manager: {words}"))
        look.do(Sync(remote.name, create=False))
        return look.plan(SYNC_AGAIN)
    if not look.cluster and remote.name not in _nominated(look.local):
        look.do(Nominate((remote.name,)))  # a cluster name may only become one that is stored as nominated
        return look.plan()
    look.do(Sync(remote.name))
    if look.state.check.get("state") not in ("Retry", "Rejected") and not (look.ready and look.cluster == remote.name):
        look.do(Answer("Ready", f'The workload was admitted on "{remote.name}"', remote.name, event="Normal"))
    return look.plan()


def _nowhere(look: _Look) -> Plan:
    """The check is Ready but the admitted copy is missing: wait for a lost worker, else retry."""
    if not look.cluster:
        words = "Admission check is Ready but no admitting cluster is recorded; this is unexpected, please report it"
        look.retry(words)
        return look.plan()
    found = next((each for each in look.state.remotes if each.name == look.cluster), None)
    listed = found is not None and (found.offered or not look.state.strict)
    if (found is None or not found.connected) and (listed or not look.state.strict):
        since = found.lost_since if found is not None and found.lost_since is not None else look.state.now
        left = since + look.state.lost_timeout - look.state.now
        if left > 0:
            return look.plan(left)
        if holds(look.local, "Evicted") or look.state.redispatch_lost:
            look.retry(LOST)
            if not look.state.strict:
                look.do(ClearActive())
        return look.plan()
    look.retry("Admitting remote no longer exists")
    return look.plan()


def _nomination(look: _Look) -> Plan:
    local, check = look.local, look.state.check
    evicted = holds(local, "Evicted") and not look.state.strict
    if check.get("state", "Pending") != "Pending" or look.cluster or evicted:
        return look.plan(_stuck(look))
    others = [
        each for each in (local.get("status") or {}).get("admissionChecks") or () if each["name"] != check["name"]
    ]
    if any(each.get("state") != "Ready" for each in others):
        return look.plan()
    if look.state.nominates is not None:
        wanted = tuple(look.state.nominates)[:MOST_NOMINATED]
        if wanted != _nominated(local):
            look.do(Nominate(wanted))
            return look.plan()
    nominated = _nominated(local)
    for remote in look.state.remotes:
        if not remote.connected:
            continue
        if remote.name in nominated and remote.workload is None:
            if remote.usable:
                look.do(Create(remote.name))
        elif remote.name not in nominated and remote.workload is not None:
            look.do(Delete(remote.name))
    return look.plan()


def _stuck(look: _Look) -> float | None:
    """An evicted workload that still holds quota because its worker is gone: Ours frees it, whatever the eviction was for."""
    local = look.local
    if look.state.strict or not holds(local, "Evicted"):
        return None
    if all(each.connected for each in look.state.remotes) or is_lost(local):
        look.do(ClearActive())
        return None
    since = [each.lost_since for each in look.state.remotes if not each.connected and each.lost_since is not None]
    left = max(since, default=look.state.now) + look.state.lost_timeout - look.state.now
    if left > 0:
        return left
    look.do(ClearActive())
    return None


# Choosing among copies.


def _winner(look: _Look) -> tuple[Remote, View] | None:
    if not look.state.strict and look.cluster:  # Ours
        return next(
            (each for each in look.copies() if each[0].name == look.cluster and holds(each[1], "Admitted")), None
        )
    return _earliest([each for each in look.copies() if holds(each[1], "Admitted")], "Admitted")


def _chosen(look: _Look, condition: str) -> tuple[Remote, View] | None:
    """The copy whose condition counts: the earliest; Ours: of the cluster that runs it, once there is one."""
    found = [each for each in look.copies() if holds(each[1], condition)]
    if look.cluster and not look.state.strict:
        found = [each for each in found if each[0].name == look.cluster]
    return _earliest(found, condition)


def _earliest(found: Sequence[tuple[Remote, View]], condition: str) -> tuple[Remote, View] | None:
    """The first by the condition's time; `found` is in the order of the configuration, which breaks ties."""
    held = [each for each in found if holds(each[1], condition)]
    return min(held, key=lambda each: _since(each[1], condition), default=None)


def _since(workload: View, condition: str) -> float:
    return parse_rfc3339(conditions_of(workload)[condition]["lastTransitionTime"])


def _nominated(workload: View) -> tuple[str, ...]:
    return tuple((workload.get("status") or {}).get("nominatedClusterNames") or ())
