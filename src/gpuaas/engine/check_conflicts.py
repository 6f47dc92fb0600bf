"""Which admission checks may stand together on one ClusterQueue: MultiKueue's goes alone and for all flavors."""

from collections.abc import Collection, Iterable

from gpuaas.engine.values import Check

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
PROVISIONING = "kueue.x-k8s.io/provisioning-request"


def faults(checks: Iterable[Check], flavors: Collection[str]) -> list[tuple[str, str]]:
    """Upstream's reasons and words for checks that cannot be combined; `flavors` are all those of the queue."""
    found = sorted(checks, key=lambda check: check.name)
    remote = [check.name for check in found if check.controller == MULTIKUEUE]
    partial = [
        check.name
        for check in found
        if check.controller == MULTIKUEUE and check.on_flavors and check.on_flavors != frozenset(flavors)
    ]
    provisioning = [check.name for check in found if check.controller == PROVISIONING]
    why: list[tuple[str, str]] = []
    if len(remote) > 1:
        words = "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: "
        why.append(("MultipleMultiKueueAdmissionChecks", words + ",".join(remote)))
    if partial:
        words = "Cannot specify MultiKueue AdmissionCheck per flavor, found: "
        why.append(("MultiKueueAdmissionCheckAppliedPerFlavor", words + ",".join(partial)))
    if remote and provisioning:
        words = "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: "
        why.append(("MultiKueueWithProvisioningRequest", f"{words}{','.join(remote)}, {','.join(provisioning)}"))
    return why
