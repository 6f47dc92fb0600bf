"""Rows of what runs pods: deployments, sets, jobs, autoscalers, disruption budgets."""

from gpuaas.api.durations import age, human_duration
from gpuaas.api.kubernetes.tables.cells import (
    Cells,
    View,
    columns,
    containers_cells,
    is_true,
    labels_text,
    object_age,
    part,
    selector_cell,
    selector_text,
)
from gpuaas.base.clock import parse_rfc3339

DEPLOYMENT_COLUMNS = columns("Ready|Up-to-date|Available|Age|+Containers|+Images|+Selector")
REPLICAS_COLUMNS = columns("Desired:integer|Current:integer|Ready:integer|Age|+Containers|+Images|+Selector")
STATEFUL_SET_COLUMNS = columns("Ready|Age|+Containers|+Images")
DAEMON_SET_COLUMNS = columns(
    "Desired:integer|Current:integer|Ready:integer|Up-to-date:integer|Available:integer|Node Selector|Age"
    "|+Containers|+Images|+Selector"
)
JOB_COLUMNS = columns("Status|Completions|Duration|Age|+Containers|+Images|+Selector")
CRON_JOB_COLUMNS = columns(
    "Schedule|Timezone|Suspend:boolean|Active:integer|Last Schedule|Age|+Containers|+Images|+Selector"
)
AUTOSCALER_COLUMNS = columns("Reference|Targets|MinPods|MaxPods|Replicas|Age")
DISRUPTION_COLUMNS = columns("Min Available|Max Unavailable|Allowed Disruptions:integer|Age")
REVISION_COLUMNS = columns("Controller|Revision|Age")
POD_TEMPLATE_COLUMNS = columns("Containers|Images|Pod Labels")


def deployment_row(obj: View, now: float) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    return [
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        object_age(obj, now),
        *containers_cells(part(spec, "template", "spec")),
        selector_text(spec.get("selector")),
    ]


def replica_set_row(obj: View, now: float) -> Cells:
    return [*_replicas(obj, now), selector_cell(part(obj, "spec").get("selector"))]


def replication_controller_row(obj: View, now: float) -> Cells:
    return [*_replicas(obj, now), labels_text(part(obj, "spec").get("selector"))]


def _replicas(obj: View, now: float) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    return [
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        object_age(obj, now),
        *containers_cells(part(spec, "template", "spec")),
    ]


def stateful_set_row(obj: View, now: float) -> Cells:
    spec = part(obj, "spec")
    return [
        f"{part(obj, 'status').get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        object_age(obj, now),
        *containers_cells(part(spec, "template", "spec")),
    ]


def daemon_set_row(obj: View, now: float) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady")
    return [
        *(status.get(count, 0) for count in counts),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        labels_text(part(spec, "template", "spec").get("nodeSelector")),
        object_age(obj, now),
        *containers_cells(part(spec, "template", "spec")),
        selector_cell(spec.get("selector")),
    ]


def job_row(obj: View, now: float) -> Cells:
    spec = part(obj, "spec")
    return [
        _job_word(obj),
        _completions(obj),
        _job_duration(part(obj, "status"), now),
        object_age(obj, now),
        *containers_cells(part(spec, "template", "spec")),
        selector_cell(spec.get("selector")),
    ]


def _job_word(obj: View) -> str:
    if is_true(obj, "Complete"):
        return "Complete"
    if is_true(obj, "Failed"):
        return "Failed"
    if part(obj, "metadata").get("deletionTimestamp"):
        return "Terminating"
    for word in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if is_true(obj, word):
            return word
    return "Running"


def _completions(obj: View) -> str:
    spec, succeeded = part(obj, "spec"), part(obj, "status").get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(status: View, now: float) -> str:
    start, end = status.get("startTime"), status.get("completionTime")
    if not start:
        return ""
    return human_duration((parse_rfc3339(end) if end else now) - parse_rfc3339(start))


def cron_job_row(obj: View, now: float) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    job = part(spec, "jobTemplate", "spec")
    last = status.get("lastScheduleTime")
    return [
        spec.get("schedule", ""),
        spec.get("timeZone") or "<none>",
        "<unset>" if spec.get("suspend") is None else str(spec["suspend"]),
        len(status.get("active") or ()),
        age(last, now) if last else "<none>",
        object_age(obj, now),
        *containers_cells(part(job, "template", "spec")),
        selector_cell(job.get("selector")),
    ]


def disruption_row(obj: View, now: float) -> Cells:
    spec = part(obj, "spec")
    return [
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        part(obj, "status").get("disruptionsAllowed", 0),
        object_age(obj, now),
    ]


def revision_row(obj: View, now: float) -> Cells:
    name = "<none>"
    for owner in part(obj, "metadata").get("ownerReferences") or ():
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = f"{owner.get('kind')}.{group}" if group else str(owner.get("kind"))
            name = f"{kind.lower()}/{owner.get('name')}"
    return [name, obj.get("revision", 0), object_age(obj, now)]


def pod_template_row(obj: View, _now: float) -> Cells:
    template = part(obj, "template")
    return [*containers_cells(part(template, "spec")), labels_text(part(template, "metadata").get("labels"))]


def autoscaler_row(obj: View, now: float) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    target = part(spec, "scaleTargetRef")
    return [
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _targets(spec),
        "<unset>" if spec.get("minReplicas") is None else str(spec["minReplicas"]),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        object_age(obj, now),
    ]


def _targets(spec: View) -> str:
    """What is wanted of resources; nothing measures them, and nothing is shown of other metrics."""
    resources = [part(metric, "resource") for metric in spec.get("metrics") or () if metric.get("resource")]
    wanted = [(each.get("name", ""), part(each, "target").get("averageUtilization")) for each in resources]
    return ", ".join(f"{name}: <unknown>/{share}%" for name, share in wanted if share is not None) or "<none>"
