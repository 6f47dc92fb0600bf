"""What every kind of job is refused for, in upstream's words."""

from typing import Any

import pytest

from gpuaas.kueue.integrations import rules
from gpuaas.kueue.integrations.batch_job import BatchJob
from gpuaas.kueue.integrations.integration import Suspendable
from gpuaas.kueue.integrations.notebook import Notebook
from gpuaas.kueue.integrations.ray import RayCluster, RayJob

Object = dict[str, Any]
K = "kueue.x-k8s.io/"


def job(labels: dict[str, str] | None = None, notes: dict[str, str] | None = None, **spec: Any) -> Object:
    metadata = {
        "name": "j",
        "labels": {f"{K}{key}": value for key, value in (labels or {}).items()},
        "annotations": {f"{K}{key}": value for key, value in (notes or {}).items()},
    }
    return {"metadata": metadata, "spec": {"template": {"spec": {}}, "suspend": True, **spec}}


def said(found: list[Any]) -> list[str]:
    return [str(each) for each in found]


DNS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
CREATES: list[tuple[Suspendable, Object, list[str]]] = [
    (BatchJob(), job(), []),
    (BatchJob(), job(notes={"elastic-job": "true"}), []),
    (RayCluster(), job(notes={"elastic-job": "true"}), []),
    (
        BatchJob(),
        job({"queue-name": "Bad_Name"}),
        [f'metadata.labels[{K}queue-name]: Invalid value: "Bad_Name": {DNS}'],
    ),
    (
        BatchJob(),
        job({"max-exec-time-seconds": "soon"}),
        [
            f'metadata.labels[{K}max-exec-time-seconds]: Invalid value: "soon": strconv.Atoi: parsing "soon": invalid syntax'
        ],
    ),
    (
        BatchJob(),
        job({"max-exec-time-seconds": "0"}),
        [f"metadata.labels[{K}max-exec-time-seconds]: Invalid value: 0: should be greater than 0"],
    ),
    (
        BatchJob(),
        job({"prebuilt-workload-name": "Bad!"}),
        [f'metadata.labels[{K}prebuilt-workload-name]: Invalid value: "Bad!": {DNS}'],
    ),
    (
        Notebook(),
        job(notes={"prebuilt-workload-name": "w"}),
        [
            f"metadata.annotations[{K}prebuilt-workload-name]: Forbidden: "
            'Is not supported for "kubeflow.org/v1, Kind=Notebook"'
        ],
    ),
    (
        Notebook(),
        job(notes={"elastic-job": "true"}),
        [
            f"metadata.annotations[{K}elastic-job]: Forbidden: "
            'elastic job is not supported for "kubeflow.org/v1, Kind=Notebook"'
        ],
    ),
    (
        BatchJob(),
        job(notes={"admission-gated-by": "a.io/b,,a.io/b"}),
        [
            f'metadata.annotations[{K}admission-gated-by]: Invalid value: "a.io/b,,a.io/b": '
            "cannot contain empty gate names",
            f'metadata.annotations[{K}admission-gated-by]: Invalid value: "a.io/b,,a.io/b": duplicate gate name: a.io/b',
        ],
    ),
    (
        BatchJob(),
        job(notes={"admission-gated-by": "plain"}),
        [
            f'metadata.annotations[{K}admission-gated-by]: Invalid value: "plain": '
            'must be a domain-prefixed path (such as "acme.io/foo")'
        ],
    ),
]


@pytest.mark.parametrize(("kind", "made", "words"), CREATES)
def test_what_a_new_job_is_refused_for(kind: Suspendable, made: Object, words: list[str]) -> None:
    assert said(rules.create_errors(kind, made)) == words


RUNNING = {"suspend": False}
UPDATES: list[tuple[str, Object, Object, bool, list[str]]] = [
    ("a waiting job may change its queue", job({"queue-name": "a"}), job({"queue-name": "b"}), True, []),
    (
        "a running one may not",
        job({"queue-name": "a"}, **RUNNING),
        job({"queue-name": "b"}, **RUNNING),
        False,
        [f'metadata.labels[{K}queue-name]: Invalid value: "b": field is immutable'],
    ),
    ("a job may lose its queue where there is no default", job({"queue-name": "a"}), job(), False, []),
    (
        "but not where there is one",
        job({"queue-name": "a"}),
        job(),
        True,
        [
            f'metadata.labels[{K}queue-name]: Invalid value: "": '
            "queue-name must not be empty in namespace with default queue"
        ],
    ),
    (
        "a running job keeps its prebuilt workload",
        job({"prebuilt-workload-name": "a"}, **RUNNING),
        job({"prebuilt-workload-name": "b"}, **RUNNING),
        False,
        [f'metadata.labels[{K}prebuilt-workload-name]: Invalid value: "b": field is immutable'],
    ),
    (
        "and its time",
        job({"max-exec-time-seconds": "1"}, **RUNNING),
        job({"max-exec-time-seconds": "2"}, **RUNNING),
        False,
        [f'metadata.labels[{K}max-exec-time-seconds]: Invalid value: "2": field is immutable'],
    ),
    (
        "also in the moment it starts",
        job({"max-exec-time-seconds": "1"}),
        job({"max-exec-time-seconds": "2"}, **RUNNING),
        False,
        [f'metadata.labels[{K}max-exec-time-seconds]: Invalid value: "2": field is immutable'],
    ),
    (
        "a class may change while it runs",
        job({"priority-class": "a"}, **RUNNING),
        job({"priority-class": "b"}, **RUNNING),
        False,
        [],
    ),
    (
        "but not come",
        job(**RUNNING),
        job({"priority-class": "b"}, **RUNNING),
        False,
        [
            f'metadata.labels[{K}priority-class]: Invalid value: "b": '
            "WorkloadPriorityClass cannot be added to a non-suspended workload"
        ],
    ),
    (
        "nor ever go",
        job({"priority-class": "a"}),
        job(),
        False,
        [
            f'metadata.labels[{K}priority-class]: Invalid value: "": WorkloadPriorityClass cannot be removed from a workload'
        ],
    ),
    (
        "no gate is added later",
        job(),
        job(notes={"admission-gated-by": "a.io/b"}),
        False,
        [f"metadata.annotations[{K}admission-gated-by]: Forbidden: cannot add admission gate after creation"],
    ),
    (
        "nor to others",
        job(notes={"admission-gated-by": "a.io/b"}),
        job(notes={"admission-gated-by": "a.io/b,a.io/c"}),
        False,
        [f"metadata.annotations[{K}admission-gated-by]: Forbidden: can only remove gates, not add new ones"],
    ),
]


@pytest.mark.parametrize(
    ("old", "new", "default_queue", "words"), [each[1:] for each in UPDATES], ids=[each[0] for each in UPDATES]
)
def test_what_an_update_is_refused_for(old: Object, new: Object, default_queue: bool, words: list[str]) -> None:
    assert said(rules.update_errors(BatchJob(), new, old, default_queue=default_queue)) == words


def nothing(*_: Any) -> None:
    return None


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (job(notes={"job-min-parallelism": "1"}, parallelism=2, completions=2), []),
        (
            job(notes={"job-min-parallelism": "2"}, parallelism=2, completions=2),
            [f"metadata.annotations[{K}job-min-parallelism]: Invalid value: 2: should be between 0 and 1"],
        ),
        (
            job(notes={"job-min-parallelism": "x"}, parallelism=2),
            [
                f'metadata.annotations[{K}job-min-parallelism]: Invalid value: "x": '
                'strconv.Atoi: parsing "x": invalid syntax'
            ],
        ),
        (
            job(notes={"job-completions-equal-parallelism": "true"}, parallelism=2, completions=3),
            [
                f'metadata.annotations[{K}job-completions-equal-parallelism]: Invalid value: "true": '
                "should not be enabled for NonIndexed jobs",
                "spec.completions: Invalid value: 3: should be equal to parallelism when "
                f"{K}job-completions-equal-parallelism annotation is true",
            ],
        ),
    ],
)
def test_what_batch_jobs_are_refused_for(made: Object, words: list[str]) -> None:
    assert said(BatchJob().create_errors(made, nothing)) == words


def test_a_partly_admitted_job_is_not_resized_while_it_runs() -> None:
    old = job(notes={"job-min-parallelism": "1"}, parallelism=3, completions=3, suspend=False)
    new = job(notes={"job-min-parallelism": "1"}, parallelism=2, completions=3, suspend=False)
    assert said(BatchJob().update_errors(new, old, nothing)) == [
        "spec.parallelism: Forbidden: cannot change when partial admission is enabled and the job is not suspended"
    ]


def ray_cluster(**spec: Any) -> Object:
    return {"metadata": {"name": "r"}, "spec": {"headGroupSpec": {"template": {"spec": {}}}, **spec}}


@pytest.mark.parametrize(
    ("kind", "made", "words"),
    [
        (
            RayCluster(),
            ray_cluster(enableInTreeAutoscaling=True),
            [
                "spec.enableInTreeAutoscaling: Invalid value: true: a kueue-managed RayCluster can use autoscaling only "
                "as an elastic job: enable the ElasticJobsViaWorkloadSlices feature gate and set the "
                f'"{K}elastic-job": "true" annotation'
            ],
        ),
        (
            RayCluster(),
            ray_cluster(workerGroupSpecs=[{"groupName": "head", "template": {}}]),
            ['spec.workerGroupSpecs[0].groupName: Forbidden: "head" is reserved for the head group'],
        ),
        (
            RayCluster(),
            ray_cluster(workerGroupSpecs=[{"groupName": f"g{i}", "template": {}} for i in range(18)]),
            ["spec.workerGroupSpecs: Too many: 19: must have at most 18 items"],
        ),
        (
            RayJob(),
            {"metadata": {"name": "r"}, "spec": {}},
            [
                "spec.rayClusterSpec: Required value: "
                "rayClusterSpec is required for Kueue-managed jobs that don't use clusterSelector"
            ],
        ),
        (
            RayJob(),
            {"metadata": {"name": "r"}, "spec": {"rayClusterSpec": {"headGroupSpec": {"template": {}}}}},
            [
                "spec.shutdownAfterJobFinishes: Invalid value: false: "
                "a kueue managed job should delete the cluster after finishing"
            ],
        ),
    ],
)
def test_what_ray_is_refused_for(kind: Suspendable, made: Object, words: list[str]) -> None:
    assert said(kind.create_errors(made, nothing)) == words
