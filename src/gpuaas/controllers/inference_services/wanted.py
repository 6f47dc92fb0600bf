"""What an InferenceService asks for: the Deployment and the Service of its predictor. Pure.

Names, labels and the merge with a ServingRuntime follow KServe's standard (raw) deployment mode. All labels of the
InferenceService are carried to the Deployment, so that a queue label there makes Kueue hold its pods; the pods
themselves get Kueue's labels from the Deployment's own rules. Nothing is downloaded: a container finds the location of
its model in the variable STORAGE_URI.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.api.owner import OWNER
from gpuaas.base.names import is_dns1035_label
from gpuaas.client.protocol import Object, Resource
from gpuaas.runtime.metadata import annotations_of, controller_reference, labels_of
from gpuaas.runtime.values import template_hash

View = Mapping[str, Any]

INFERENCE_SERVICES: Final = Resource("serving.kserve.io", "v1beta1", "inferenceservices", True, "InferenceService")
RUNTIMES: Final = Resource("serving.kserve.io", "v1alpha1", "servingruntimes", True, "ServingRuntime")
CLUSTER_RUNTIMES: Final = Resource(
    "serving.kserve.io", "v1alpha1", "clusterservingruntimes", False, "ClusterServingRuntime"
)
STOP: Final = "serving.kserve.io/stop"
LABEL: Final = "serving.kserve.io/inferenceservice"
SHAPE: Final = "gpuaas.dev/inference-service-shape"
"""On the Deployment: a hash of what was asked for when it was last written."""
CONTAINER: Final = "kserve-container"
PORT: Final = 8080
_NAME_LIMIT: Final = 48  # the label app is isvc.NAME-predictor, of at most 63 characters
_KUEUE: Final = "kueue.x-k8s.io/"
_FRAMEWORKS: Final = (
    "huggingface",
    "lightgbm",
    "onnx",
    "paddle",
    "pmml",
    "pytorch",
    "sklearn",
    "tensorflow",
    "triton",
    "xgboost",
)
_OF_MODELS: Final = frozenset(("modelFormat", "protocolVersion", "runtime", "runtimeVersion", "storage", "storageUri"))
_OF_PREDICTORS: Final = frozenset(
    (
        *_FRAMEWORKS,
        "annotations",
        "autoScaling",
        "batcher",
        "canaryTrafficPercent",
        "containerConcurrency",
        "containers",
        "deploymentStrategy",
        "labels",
        "logger",
        "maxReplicas",
        "minReplicas",
        "model",
        "name",
        "scaleMetric",
        "scaleMetricType",
        "scaleTarget",
        "storageContainerName",
        "storageUris",
        "timeout",
        "workerSpec",
    )
)
"""The fields of a predictor that its pods do not have; all others are those of a PodSpec."""
_READ: Final[tuple[tuple[str, type, str], ...]] = (
    ("args", list, "a list"),
    ("env", list, "a list"),
    ("image", str, "a string"),
    ("name", str, "a string"),
    ("resources", dict, "an object"),
    ("storageUri", str, "a string"),
)
_NOT_PASSED_ON: Final = ("kubectl.kubernetes.io/", "serving.kserve.io/", "opendatahub.io/", "openshift.io/")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why there is no Deployment for what the InferenceService asks."""

    reason: str
    message: str


def predictor_name(service: View) -> str:
    return f"{service['metadata']['name']}-predictor"


def is_stopped(service: View) -> bool:
    return annotations_of(service).get(STOP) == "true"


def replicas_of(service: View) -> int:
    """One, unless minReplicas says otherwise; more pods than minReplicas are never made, as nothing measures the load."""
    wanted = _predictor(service).get("minReplicas")
    return 0 if is_stopped(service) else 1 if wanted is None else max(int(wanted), 0)


def wanted_deployment(service: View, runtimes: Iterable[View]) -> Object | Problem:
    """`runtimes`: those of the namespace first, then those of the cluster."""
    metadata, predictor = service["metadata"], _predictor(service)
    problem = _name_problem(metadata["name"])
    pod = problem or _pod_spec(service, list(runtimes))
    if isinstance(pod, Problem):
        return pod
    own = _own_labels(service)
    labels = {**labels_of(service), **own}
    of_pods = {key: text for key, text in labels_of(service).items() if not key.startswith(_KUEUE)}
    notes = {key: text for key, text in annotations_of(service).items() if _is_passed_on(key)}
    template: Object = {
        "metadata": {
            "labels": {**of_pods, **(predictor.get("labels") or {}), **own},
            "annotations": {**notes, **(predictor.get("annotations") or {})},
        },
        "spec": pod,
    }
    spec: Object = {"selector": {"matchLabels": {"app": own["app"]}}, "template": template}
    if predictor.get("deploymentStrategy"):
        spec["strategy"] = predictor["deploymentStrategy"]
    shape = template_hash({"labels": labels, "spec": spec})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": predictor_name(service),
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": {SHAPE: shape},
            "ownerReferences": [controller_reference(service, INFERENCE_SERVICES)],
        },
        "spec": {"replicas": replicas_of(service), **spec},
    }


def wanted_service(service: View, deployment: View) -> Object:
    ports = [
        port for one in deployment["spec"]["template"]["spec"]["containers"] for port in one.get("ports") or ()
    ] or [{}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": predictor_name(service),
            "namespace": service["metadata"]["namespace"],
            "labels": _own_labels(service),
            "ownerReferences": [controller_reference(service, INFERENCE_SERVICES)],
        },
        "spec": {
            "type": "ClusterIP",
            "selector": {"app": _own_labels(service)["app"]},
            "ports": [
                {"name": "http", "port": 80, "targetPort": ports[0].get("containerPort", PORT), "protocol": "TCP"}
            ],
        },
    }


def _predictor(service: View) -> View:
    found: View = (service.get("spec") or {}).get("predictor") or {}
    return found


def _own_labels(service: View) -> dict[str, str]:
    return {
        "app": f"isvc.{predictor_name(service)}",
        "component": "predictor",
        LABEL: service["metadata"]["name"],
    }


def _name_problem(name: str) -> Problem | None:
    if len(name) > _NAME_LIMIT:
        words = f"metadata.name: has {len(name)} characters, at most {_NAME_LIMIT} are allowed"
        return Problem("InvalidName", f"{words}, as labels of the pods contain it")
    if is_dns1035_label(name):
        words = "must consist of lower case letters, digits and -, and start with a letter: a Service is named after it"
        return Problem("InvalidName", f'metadata.name: "{name}" {words}')
    return None


def _is_passed_on(annotation: str) -> bool:
    return annotation != OWNER and not annotation.startswith(_NOT_PASSED_ON)


def _pod_spec(service: View, runtimes: list[View]) -> Object | Problem:
    predictor = _predictor(service)
    pod = {key: value for key, value in predictor.items() if key not in _OF_PREDICTORS and value is not None}
    given = [dict(one) for one in predictor.get("containers") or ()]
    model = _model_of(predictor)
    if isinstance(model, Problem):
        return model
    if model is None:
        if not given:
            return Problem("InvalidPredictorSpec", "spec.predictor: has neither a model nor containers")
        given[0].setdefault("name", CONTAINER)
        return {**pod, "containers": given}
    runtime = _runtime_for(service, model, runtimes)
    if isinstance(runtime, Problem):
        return runtime
    container = _model_container(model)
    if runtime is None:
        return {**pod, "containers": [container, *given]}
    return _with_runtime(service, runtime, container, {**pod, "containers": given})


def _model_of(predictor: View) -> View | Problem | None:
    """The older forms name the format by the field: `sklearn: {storageUri: …}`. Their schema lets anything pass."""
    if predictor.get("model"):
        found: View = predictor["model"]
        return found
    for name in _FRAMEWORKS:
        if predictor.get(name) is not None:
            wrong = _wrong_field(predictor[name])
            if wrong:
                return Problem("InvalidPredictorSpec", f"spec.predictor.{name}.{wrong}")
            return {**predictor[name], "modelFormat": {"name": name}}
    return None


def _wrong_field(container: View) -> str:
    """The first field that is read here and has another type than a container's; "" where all are right."""
    for field, kind, words in _READ:
        if container.get(field) is not None and not isinstance(container[field], kind):
            return f"{field}: must be {words}"
    if not all(isinstance(one, Mapping) and isinstance(one.get("name"), str) for one in container.get("env") or ()):
        return "env: must be a list of objects with a name"
    amounts = (container.get("resources") or {}).values()
    return "" if all(isinstance(one, Mapping) for one in amounts) else "resources: must be limits and requests"


def _model_container(model: View) -> Object:
    container = {key: value for key, value in model.items() if key not in _OF_MODELS and value is not None}
    container["name"] = container.get("name") or CONTAINER
    if model.get("storageUri") and all(one["name"] != "STORAGE_URI" for one in container.get("env") or ()):
        container["env"] = [*(container.get("env") or ()), {"name": "STORAGE_URI", "value": model["storageUri"]}]
    return container


def _runtime_for(service: View, model: View, runtimes: list[View]) -> View | Problem | None:
    """The runtime a model names, or the first that takes its format by itself; none is needed where an image is named."""
    wanted, namespace = model.get("runtime"), service["metadata"]["namespace"]
    if wanted:
        for one in runtimes:
            if one["metadata"]["name"] == wanted:
                if (one.get("spec") or {}).get("disabled"):
                    return Problem("RuntimeDisabled", f"{one['kind']} {wanted} is disabled")
                return one
        words = f'there is no ServingRuntime "{wanted}" in namespace {namespace} and no such ClusterServingRuntime'
        return Problem("RuntimeNotRecognized", f"spec.predictor.model.runtime: {words}")
    if model.get("image"):
        return None
    form = (model.get("modelFormat") or {}).get("name", "")
    for one in runtimes:
        spec = one.get("spec") or {}
        formats = spec.get("supportedModelFormats") or ()
        if not spec.get("disabled") and any(each.get("autoSelect") and each.get("name") == form for each in formats):
            return one
    words = f'no ServingRuntime of namespace {namespace} or of the cluster selects itself for model format "{form}"'
    return Problem("NoSupportingRuntime", f"{words}: name one in spec.predictor.model.runtime, or an image")


def _with_runtime(service: View, runtime: View, container: Object, pod: Object) -> Object:
    """The runtime's pod with the model's settings over it; arguments are the runtime's, then the model's."""
    spec = _filled_in(runtime.get("spec") or {}, service["metadata"])
    before = [dict(one) for one in spec.get("containers") or ()]
    base = next((one for one in before if one.get("name") == CONTAINER), before[0] if before else {})
    named = {one["name"] for one in container.get("env") or ()}
    env = [one for one in base.get("env") or () if one["name"] not in named]
    combined = {
        "args": [*(base.get("args") or ()), *(container.get("args") or ())],
        "env": [*env, *(container.get("env") or ())],
        "resources": _merged_resources(base.get("resources"), container.get("resources")),
    }
    given = {field: value for field, value in combined.items() if value}
    merged = {**base, **container, "name": base.get("name") or CONTAINER, **given}
    for field in ("affinity", "schedulerName", "imagePullSecrets", "hostIPC"):
        if field in spec:
            pod.setdefault(field, spec[field])
    for field in ("tolerations", "volumes"):
        if spec.get(field):
            pod[field] = [*spec[field], *(one for one in pod.get(field) or () if one not in spec[field])]
    if spec.get("nodeSelector"):
        pod["nodeSelector"] = {**spec["nodeSelector"], **(pod.get("nodeSelector") or {})}
    beside = {one.get("name") for one in pod["containers"]}
    others = [one for one in before if one is not base and one.get("name") not in beside]
    return {**pod, "containers": [merged, *others, *pod["containers"]]}


def _merged_resources(base: Any, own: Any) -> Object:
    parts = {
        part: {**((base or {}).get(part) or {}), **((own or {}).get(part) or {})} for part in ("requests", "limits")
    }
    return {part: amounts for part, amounts in parts.items() if amounts}


def _filled_in(value: Any, metadata: View) -> Any:
    """A runtime's text may name the InferenceService: {{.Name}} and {{.Namespace}}."""
    if isinstance(value, str):
        return value.replace("{{.Name}}", metadata["name"]).replace("{{.Namespace}}", metadata["namespace"])
    if isinstance(value, list):
        return [_filled_in(each, metadata) for each in value]
    if isinstance(value, Mapping):
        return {key: _filled_in(each, metadata) for key, each in value.items()}
    return value
