"""The placement check: a Placement becomes a MultiKueueConfig, and the check is answered on each workload.

`PlacementChecks` keeps the MultiKueueConfig named by the Placement: the decided clusters, best score first. Its order is
written only when membership changes or a score has really overtaken another, since each change of it wakes every workload.
`CheckStates` sets the check of each workload that holds quota to Ready, and again after each eviction: MultiKueue waits
for all other checks (since Kueue 0.16.6), and the original add-on never answers, so that nothing was ever dispatched.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import AlreadyExists, ApiError, NotFound
from gpuaas.client.kueue import ADMISSION_CHECKS, WORKLOADS
from gpuaas.client.ocm import MULTIKUEUE_CONFIGS, PLACEMENTS
from gpuaas.client.protocol import Object
from gpuaas.fleet.hub.names import (
    KUEUE_NAMESPACES,
    PLACEMENT_CHECK,
    condition,
    condition_of,
    status_of,
    with_conditions,
)
from gpuaas.fleet.hub.view import FleetView, placement_of, scored, to_all
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL
from gpuaas.runtime.metadata import Key, annotations_of, finalizers_of, is_deleting, key_of
from gpuaas.runtime.writes import write_status

FINALIZER: Final = "kueue-addon.open-cluster-management.io/admissioncheck-cleanup"
QUOTA_MANAGEMENT: Final = "gpuaas.dev/quota-management"  # annotation of a Placement: Automated or Manual
MARGIN: Final = 10  # points of a total score by which a cluster overtakes another of the same membership
_TOGETHER: Final = 0.05
_RETRY: Final = 5.0


def is_ours(check: Mapping[str, Any]) -> bool:
    return (check.get("spec") or {}).get("controllerName") == PLACEMENT_CHECK


def placement_named(check: Mapping[str, Any]) -> str:
    return str(((check.get("spec") or {}).get("parameters") or {}).get("name") or "")


def ordered(names: Iterable[str], totals: Mapping[str, int], before: Sequence[str]) -> list[str]:
    """Best total first, equals by name; as it was before while nothing has overtaken by more than the margin."""
    best = sorted(names, key=lambda name: (-totals.get(name, 0), name))
    if set(before) == set(best) and len(before) == len(best):
        overtaken = any(totals.get(after, 0) - totals.get(name, 0) > MARGIN for name, after in pairwise(before))
        return best if overtaken else list(before)
    return best


class PlacementChecks(Controller):
    name = "placement-checks"
    component = "kueue-addon-controller"

    def __init__(self, deps: Deps, view: FleetView) -> None:
        super().__init__(deps)
        of = deps.informers.of
        self._view = view
        self._checks = self.follow(of(ADMISSION_CHECKS), lambda check: (key_of(check),) if is_ours(check) else ())
        self._placements = self.follow(of(PLACEMENTS), self._naming)
        self._configs = self.follow(of(MULTIKUEUE_CONFIGS), self._naming)
        self.follow(self._view.decisions, lambda d: self._users(placement_of(d)), delay=_TOGETHER)
        self.follow(self._view.scores, to_all(lambda: [key_of(each) for each in self._ours()]), delay=1.0, by=scored)

    def _ours(self) -> list[Object]:
        return [each for each in self._checks.all() if is_ours(each)]

    def _naming(self, obj: Mapping[str, Any]) -> Iterable[Key]:
        return self._users(obj["metadata"]["name"])

    def _users(self, placement: str) -> list[Key]:
        return [key_of(each) for each in self._ours() if placement_named(each) == placement]

    async def reconcile(self, key: Key) -> Requeue | None:
        check = self._checks.get(*key)
        if check is None or not is_ours(check):
            return None
        if is_deleting(check):
            await self._finalize(check)
            return None
        if FINALIZER not in finalizers_of(check):
            metadata = {"resourceVersion": check["metadata"]["resourceVersion"]}
            finalizers = [*finalizers_of(check), FINALIZER]
            patch = {"metadata": {**metadata, "finalizers": finalizers}}
            check = await self.client.patch(ADMISSION_CHECKS, key.name, patch)
        said, again = await self._follow_placement(placement_named(check))
        status = check.get("status") or {}
        conditions = with_conditions(status.get("conditions"), [said], self.clock.now())
        await write_status(self.client, ADMISSION_CHECKS, check, {**status, "conditions": conditions})
        return again

    async def _follow_placement(self, name: str) -> tuple[Object, Requeue | None]:
        """Makes the MultiKueueConfig follow; the check's condition after that."""
        placement = self._placement(name)
        if placement is None:
            return condition("Active", "False", "PlacementNotFound", f"Placement {name} not found"), Requeue(_RETRY)
        chosen = self._view.chosen(placement["metadata"]["namespace"], name)
        try:
            if not chosen:
                await self._delete_config(name)
                words = f"No clusters available for placement {name}"
                return condition("Active", "False", "NoClustersAvailable", words), None
            await self._write_config(placement, chosen)
        except ApiError as error:
            verb = "create/update" if chosen else "delete"
            reason = "MultiKueueConfigError" if chosen else "MultiKueueConfigDeleteError"
            words = f"Failed to {verb} multi kueue config {name}: {error.message}"
            return condition("Active", "False", reason, words), Requeue(_RETRY)
        words = f"MultiKueueConfig {name} is generated successfully"
        return condition("Active", "True", "Active", words), None

    def _placement(self, name: str) -> Object | None:
        found = (self._placements.get(namespace, name) for namespace in KUEUE_NAMESPACES)
        return next((each for each in found if each is not None), None)

    async def _write_config(self, placement: Object, chosen: Sequence[str]) -> None:
        name = placement["metadata"]["name"]
        known = self._configs.get("", name)
        before = list(((known or {}).get("spec") or {}).get("clusters") or ())
        totals = self._view.schedule(placement, self.clock.now()).totals
        clusters = ordered(chosen, totals, before)
        management = annotations_of(placement).get(QUOTA_MANAGEMENT)
        spec = {"clusters": clusters, **({"quotaManagement": management} if management else {})}
        if known is None:
            head = {"apiVersion": MULTIKUEUE_CONFIGS.api_version, "kind": MULTIKUEUE_CONFIGS.kind}
            try:
                await self.client.create(MULTIKUEUE_CONFIGS, {**head, "metadata": {"name": name}, "spec": spec})
            except AlreadyExists:
                return  # its news queue the check again
        elif clusters != before or (management and known["spec"].get("quotaManagement") != management):
            await self.client.patch(MULTIKUEUE_CONFIGS, name, {"spec": spec})

    async def _delete_config(self, name: str) -> None:
        if self._configs.get("", name) is None:
            return
        try:
            await self.client.delete(MULTIKUEUE_CONFIGS, name)
        except NotFound:
            return

    async def _finalize(self, check: Object) -> None:
        if FINALIZER not in finalizers_of(check):
            return
        name = placement_named(check)
        others = [each for each in self._ours() if placement_named(each) == name and not is_deleting(each)]
        if name and not others:
            await self._delete_config(name)
        metadata = check["metadata"]
        kept = [each for each in finalizers_of(check) if each != FINALIZER]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": kept or None}}
        await self.client.patch(ADMISSION_CHECKS, metadata["name"], patch)


class CheckStates(Controller):
    """The states of placement checks on workloads."""

    name = "placement-check-states"
    component = "kueue-addon-controller"
    workers = 4

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        of = deps.informers.of
        self._ours: set[str] = set()
        of(ADMISSION_CHECKS).subscribe(self._check_changed)
        self._workloads = self.follow(of(WORKLOADS), self._concerned)
        self._checks = self.follow(of(ADMISSION_CHECKS), self._waiting)
        self._configs = of(MULTIKUEUE_CONFIGS)
        self._followed.append(self._configs)

    def _check_changed(self, old: Object | None, new: Object | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        if new is not None and is_ours(new):
            self._ours.add(name)
        else:
            self._ours.discard(name)

    def _concerned(self, workload: Mapping[str, Any]) -> Iterable[Key]:
        if self._ours and any(each["name"] in self._ours and _is_pending(each) for each in _checks_of(workload)):
            return (key_of(workload),)
        return ()

    def _waiting(self, check: Mapping[str, Any]) -> Iterable[Key]:
        if not is_ours(check):
            return ()
        name = check["metadata"]["name"]
        return [
            key_of(each)
            for each in self._workloads.all()
            if any(c["name"] == name and _is_pending(c) for c in _checks_of(each))
        ]

    async def reconcile(self, key: Key) -> Requeue | None:
        workload = self._workloads.get(*key)
        if workload is None or is_deleting(workload):
            return None
        if status_of(workload, "QuotaReserved") != "True" or status_of(workload, "Finished") == "True":
            return None
        checks = [self._answered(each) for each in _checks_of(workload)]
        status = workload.get("status") or {}
        if await write_status(self.client, WORKLOADS, workload, {**status, "admissionChecks": checks}):
            for before, after in zip(_checks_of(workload), checks, strict=True):
                if before.get("state") != after.get("state"):
                    words = f"Admission check {after['name']} updated state from Pending to Ready"
                    words += f" with message: {after['message']}"
                    self.recorder.event(WORKLOADS, workload, NORMAL, "AdmissionCheckUpdated", words)
        return None

    def _answered(self, entry: Object) -> Object:
        """The entry of a check on a workload after our answer; as it is where it is not ours or already answered."""
        check = self._checks.get("", entry["name"])
        if check is None or not is_ours(check) or not _is_pending(entry):
            return entry
        active = condition_of(check, "Active")
        name = placement_named(check)
        config = self._configs.get("", name)
        if active is None or active["status"] != "True" or config is None:
            words = active["message"] if active is not None else f"Placement {name} has not been looked at yet"
            return entry if entry.get("message") == words else {**entry, "message": words}
        clusters = ", ".join((config.get("spec") or {}).get("clusters") or ())
        answered = {**entry, "state": "Ready", "message": f"Placement {name} selects {clusters}"}
        return {**answered, "lastTransitionTime": rfc3339(self.clock.now())}


def _checks_of(workload: Mapping[str, Any]) -> Sequence[Object]:
    return (workload.get("status") or {}).get("admissionChecks") or ()


def _is_pending(entry: Mapping[str, Any]) -> bool:
    return entry.get("state") == "Pending"
