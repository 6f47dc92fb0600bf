"""What a pod's spec becomes when it says less than Kubernetes knows: for pods and for every template of pods.

`default_pod_spec` holds for both; `default_pod` adds what only a pod itself gets (requests from limits, host ports).
"""

import re
from typing import Any, Final

Part = dict[str, Any]

_COMPONENT: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE: Final = re.compile(
    rf"(?:(?:localhost|(?=[A-Za-z0-9-]*[.:A-Z])[A-Za-z0-9.:-]+)/)?{_COMPONENT}(?:/{_COMPONENT})*"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@[A-Za-z][\w.+-]*:[0-9A-Fa-f]{32,})?"
)
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS: Final = ("postStart", "preStop")
_READ_MODE: Final = 0o644


def default_pod(spec: Part) -> None:
    """What only a pod gets, on top of `default_pod_spec`."""
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        _requests_from_limits(container)
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                if not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort", 0)
    spec.setdefault("enableServiceLinks", True)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1  # in a template it stays negative, with a warning


def default_pod_template(template: Part) -> None:
    if isinstance(template.get("spec"), dict):
        default_pod_spec(template["spec"])


def default_pod_spec(spec: Part) -> None:
    for name in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(name) or ():
            _container(container)
    for volume in spec.get("volumes") or ():
        _volume(volume)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    spec.pop("schedulingGroup", None)  # switched off by default: left out without a word, as those below
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:  # the old name of the field is kept equal to the new one
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def pull_policy(image: str) -> str:
    """Always for `latest` (said or meant), IfNotPresent for any other tag, a digest, or what is no image name."""
    found = _IMAGE.fullmatch(image)
    if found is None:
        return "IfNotPresent"
    tag = found["tag"] or ("" if found["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _container(container: Part) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for name in _PROBES:
        if container.get(name) is not None:
            _probe(container[name])
    if container.get("lifecycle") is not None:
        _lifecycle(container)
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")


def _lifecycle(container: Part) -> None:
    lifecycle = container["lifecycle"]
    for name in _HOOKS:
        if lifecycle.get(name) is not None:
            _handler(lifecycle[name])
    if lifecycle.pop("stopSignal", None) is not None and not lifecycle:
        del container["lifecycle"]


def _probe(probe: Part) -> None:
    _handler(probe)
    for field, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        if not probe.get(field):
            probe[field] = value


def _handler(handler: Part) -> None:
    http, grpc = handler.get("httpGet"), handler.get("grpc")
    if http is not None:
        http.setdefault("path", "/")
        http.setdefault("scheme", "HTTP")
    if grpc is not None:
        grpc.setdefault("service", "")


def _volume(volume: Part) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if volume.get(source) is not None:
            volume[source].setdefault("defaultMode", _READ_MODE)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    if volume.get("azureDisk") is not None:
        volume["azureDisk"].setdefault("readOnly", False)
    image = volume.get("image")
    if image is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = pull_policy(image.get("reference", ""))
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if claim is not None:
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    _files((volume.get("downwardAPI") or {}).get("items"))
    if volume.get("projected") is not None:
        _projected(volume["projected"])


def _projected(volume: Part) -> None:
    volume["sources"] = volume.get("sources") or None  # Go writes it even when it is not said
    for source in volume["sources"] or ():
        for field in ("clusterTrustBundle", "podCertificate"):
            source.pop(field, None)
        if source.get("serviceAccountToken") is not None:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        _files((source.get("downwardAPI") or {}).get("items"))


def _files(items: Any) -> None:
    for item in items or ():
        if item.get("fieldRef") is not None:
            item["fieldRef"].setdefault("apiVersion", "v1")


def _requests_from_limits(container: Part) -> None:
    limits = (container.get("resources") or {}).get("limits")
    if limits:
        requests = container["resources"].get("requests") or {}
        container["resources"]["requests"] = {**limits, **requests}
