"""Many clusters: whether each is connected, chosen by a placement, and whether jobs can reach its queues.

What the troubleshooting pages of RHACM's and MultiKueue's walkthroughs describe, each with its cause and its fix. The same
checks run on a worker, where they find queues that a hub's jobs cannot pass.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpuaas.cli.doctor.finding import Finding

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Resource
    from gpuaas.views.fleet import FleetRow

View = Mapping[str, Any]
_MULTIKUEUE, _PLACEMENT = "kueue.x-k8s.io/multikueue", "open-cluster-management.io/placement"
_ORIGIN = "kueue.x-k8s.io/multikueue-origin"
_MOST = 10  # findings of one kind
# reason of MultiKueueCluster's Active -> what helps; {name}, {secret} are filled in
_FIXES = {
    "BadKubeConfig": "kubectl create secret generic {secret} -n kueue-system --from-file=kubeconfig=FILE",
    "InsecureKubeConfig": "gpuaas fleet join {name} --from FILE  # a token and inline certificates, nothing else",
    "BadClusterProfile": "kubectl get clusterprofiles -A",
    "MultiKueueClusterProfileFeatureDisabled": "gpuaas fleet join {name} --from FILE",
}
_WORDS = (
    ("connection refused", "check the address, firewall and control-plane ACL: the hub must reach its API server"),
    ("Unauthorized", "gpuaas fleet join {name} --from FILE  # its token is not accepted any more"),
    ("forbidden", "gpuaas fleet join {name} --from FILE  # the role there lacks a right"),
    ("no matches for kind", "install Kueue and the CRD named there on the worker"),
    ("certificate", "put the CA of the worker's API server into the kubeconfig"),
)


async def check_fleet(client: "HttpClient") -> list[Finding]:
    from gpuaas.client.kueue import ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
    from gpuaas.client.ocm import DECISIONS, MANAGED_CLUSTERS, MULTIKUEUE_CLUSTERS, SCORES
    from gpuaas.views.fleet import fleet_rows

    clusters = await _listed(client, MANAGED_CLUSTERS)
    connections = await _listed(client, MULTIKUEUE_CLUSTERS)
    checks = await _listed(client, ADMISSION_CHECKS)
    found: list[Finding] = []
    if clusters:
        rows = fleet_rows(clusters, await _listed(client, SCORES), connections, await _listed(client, DECISIONS))
        found += cluster_findings(rows)
    known = {each["metadata"]["name"] for each in clusters}
    found += connection_findings([each for each in connections if each["metadata"]["name"] not in known])
    found += check_findings(checks)
    workloads = await _listed(client, WORKLOADS)
    found += queue_findings(workloads, await _listed(client, LOCAL_QUEUES))
    found += worker_findings(
        workloads, await _listed(client, LOCAL_QUEUES), await _listed(client, CLUSTER_QUEUES), checks
    )
    if (clusters or connections) and not found:
        found.append(
            Finding("green", "fleet", f"{len(clusters) or len(connections)} clusters are connected and chosen")
        )
    return found


async def _listed(client: "HttpClient", resource: "Resource") -> Sequence[View]:
    from gpuaas.base.errors import NotFound

    try:
        return (await client.list(resource)).items
    except NotFound:
        return ()


def cluster_findings(rows: "Sequence[FleetRow]") -> list[Finding]:
    found = []
    for row in rows:
        if row.problem:
            found.append(Finding("red", "cluster-connected", f"cluster {row.name}: {row.problem}", row.fix))
        elif not row.local and not row.placements and not row.drained:
            words = f"no Placement selects cluster {row.name}, so it has no add-on and gets no jobs"
            fix = "kubectl get placements,managedclustersetbindings -n kueue-system"
            found.append(Finding("yellow", "cluster-chosen", words, fix))
    return found[:_MOST]


def connection_findings(connections: Sequence[View]) -> list[Finding]:
    """Of MultiKueueClusters that an admin wired."""
    found = []
    for each in connections:
        active = _condition(each, "Active")
        if active.get("status") == "False":
            name = each["metadata"]["name"]
            words = f"MultiKueueCluster {name} is not connected: {active.get('reason')}: {active.get('message')}"
            found.append(Finding("red", "multikueue-connected", words, _fix(each, active)))
    return found[:_MOST]


def _fix(connection: View, active: View) -> str:
    source = ((connection.get("spec") or {}).get("clusterSource") or {}).get("kubeConfig") or {}
    name, secret = connection["metadata"]["name"], source.get("location") or "SECRET"
    said = str(active.get("message"))
    template = _FIXES.get(str(active.get("reason"))) or next((fix for words, fix in _WORDS if words in said), "")
    return (template or "kubectl describe multikueuecluster {name}").format(name=name, secret=secret)


def check_findings(checks: Sequence[View]) -> list[Finding]:
    found = []
    for each in checks:
        active = _condition(each, "Active")
        controller = str((each.get("spec") or {}).get("controllerName"))
        if controller not in (_MULTIKUEUE, _PLACEMENT) or active.get("status") != "False":
            continue
        name = each["metadata"]["name"]
        target = str(((each.get("spec") or {}).get("parameters") or {}).get("name") or "")
        fix = f"kubectl describe admissioncheck {name}"
        if active.get("reason") == "NoClustersAvailable":
            fix = f"kubectl get placement {target} -A  # its conditions say which step leaves every cluster out"
        elif active.get("reason") == "PlacementNotFound":
            fix = f"kubectl get placements -A  # {target} must be in kueue-system or openshift-kueue-operator"
        found.append(Finding("red", "check-active", f"AdmissionCheck {name}: {active.get('message')}", fix))
    return found[:_MOST]


def queue_findings(workloads: Sequence[View], queues: Sequence[View]) -> list[Finding]:
    """Workloads whose queue is not there: a misspelt name, or a hub's queue that a worker lacks."""
    there: dict[str, list[str]] = {}
    for each in queues:
        there.setdefault(each["metadata"]["namespace"], []).append(each["metadata"]["name"])
    found = []
    for each in workloads:
        namespace, queue = each["metadata"]["namespace"], str((each.get("spec") or {}).get("queueName") or "")
        if not queue or queue in there.get(namespace, ()) or _condition(each, "Finished").get("status") == "True":
            continue
        others = ", ".join(sorted(there.get(namespace, ()))[:3]) or "none"
        words = (
            f"Workload {namespace}/{each['metadata']['name']}: LocalQueue {queue} doesn't exist (there are: {others})"
        )
        best = next(iter(sorted(there.get(namespace, ()))), "")
        fix = f"kubectl get localqueues -n {namespace}"
        owner = next(iter(each["metadata"].get("ownerReferences") or ()), None)
        if best and owner is not None:
            kind = str(owner["kind"]).lower()
            fix = f"kubectl label {kind} {owner['name']} -n {namespace} kueue.x-k8s.io/queue-name={best} --overwrite"
        found.append(Finding("yellow", "queue-name", words, fix))
    return found[:_MOST]


def worker_findings(
    workloads: Sequence[View], local: Sequence[View], queues: Sequence[View], checks: Sequence[View]
) -> list[Finding]:
    """On a worker: a queue that copies of a hub's jobs go through must not dispatch them again."""
    dispatching = {c["metadata"]["name"] for c in checks if (c.get("spec") or {}).get("controllerName") == _MULTIKUEUE}
    copied = {
        (each["metadata"]["namespace"], (each.get("spec") or {}).get("queueName"))
        for each in workloads
        if (each["metadata"].get("labels") or {}).get(_ORIGIN)
    }
    used = {
        (q.get("spec") or {}).get("clusterQueue")
        for q in local
        if (q["metadata"]["namespace"], q["metadata"]["name"]) in copied
    }
    found = []
    for each in queues:
        strategy = ((each.get("spec") or {}).get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
        has = sorted(str(c.get("name")) for c in strategy if c.get("name") in dispatching)
        if has and each["metadata"]["name"] in used:
            name = each["metadata"]["name"]
            words = f"ClusterQueue {name} takes a hub's jobs and has the check {has[0]}, so they wait here for ever"
            patch = '\'{"spec":{"admissionChecksStrategy":null}}\''
            fix = f"kubectl patch clusterqueue {name} --type merge -p {patch}"
            found.append(Finding("red", "worker-queue-without-checks", words, fix))
    return found[:_MOST]


def _condition(obj: View, kind: str) -> View:
    found = (obj.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each.get("type") == kind), {})
