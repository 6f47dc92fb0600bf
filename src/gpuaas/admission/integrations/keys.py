"""The labels, annotations, gates and fixed names by which jobs and Kueue talk."""

from typing import Final

QUEUE: Final = "kueue.x-k8s.io/queue-name"
DEFAULT_QUEUE: Final = "default"
PRIORITY_CLASS: Final = "kueue.x-k8s.io/priority-class"
MAX_EXEC_TIME: Final = "kueue.x-k8s.io/max-exec-time-seconds"
PREBUILT: Final = "kueue.x-k8s.io/prebuilt-workload-name"
GATED_BY: Final = "kueue.x-k8s.io/admission-gated-by"
ELASTIC: Final = "kueue.x-k8s.io/elastic-job"
JOB_UID: Final = "kueue.x-k8s.io/job-uid"
JOB_OWNER_KIND: Final = "kueue.x-k8s.io/job-owner-gvk"
JOB_OWNER_NAME: Final = "kueue.x-k8s.io/job-owner-name"
PROVISIONING: Final = "provreq.kueue.x-k8s.io/"

MANAGED: Final = "kueue.x-k8s.io/managed"
POD_SET: Final = "kueue.x-k8s.io/podset"
LOCAL_QUEUE: Final = "kueue.x-k8s.io/local-queue-name"
CLUSTER_QUEUE: Final = "kueue.x-k8s.io/cluster-queue-name"
WORKLOAD: Final = "kueue.x-k8s.io/workload"

MIN_PARALLELISM: Final = "kueue.x-k8s.io/job-min-parallelism"
EQUAL_COMPLETIONS: Final = "kueue.x-k8s.io/job-completions-equal-parallelism"
STOPPING: Final = "kueue.x-k8s.io/stopping"

REQUIRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-preferred-topology"
UNCONSTRAINED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
SLICE_TOPOLOGY: Final = "kueue.x-k8s.io/podset-slice-required-topology"
SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
SLICE_LAYERS: Final = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
POD_SET_GROUP: Final = "kueue.x-k8s.io/podset-group-name"

ADMISSION_GATE: Final = "kueue.x-k8s.io/admission"
TOPOLOGY_GATE: Final = "kueue.x-k8s.io/topology"
SUSPENDING_PARENT: Final = "kueue.x-k8s.io/pod-suspending-parent"
GROUP_NAME: Final = "kueue.x-k8s.io/pod-group-name"
GROUP_TOTAL: Final = "kueue.x-k8s.io/pod-group-total-count"
GROUP_FAST: Final = "kueue.x-k8s.io/pod-group-fast-admission"
GROUP_SERVING: Final = "kueue.x-k8s.io/pod-group-serving"
GROUP_POD_INDEX: Final = "kueue.x-k8s.io/pod-group-pod-index"
GROUP_POD_INDEX_LABEL: Final = "kueue.x-k8s.io/pod-group-pod-index-label"
ROLE_HASH: Final = "kueue.x-k8s.io/role-hash"
RETRIABLE: Final = "kueue.x-k8s.io/retriable-in-group"
IS_GROUP: Final = "kueue.x-k8s.io/is-group-workload"

MAIN: Final = "main"
MAX_POD_SETS: Final = 18
