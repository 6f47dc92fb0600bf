"""Upstream Kueue beside a real control plane: its definitions, its manager with a configuration of ours, its webhooks.

Definitions and webhook configurations are read from Kueue's own module and pointed at the manager on 127.0.0.1, since no
Service leads anywhere here. A webhook for a kind that the cluster does not have is left out, as are those of frameworks
that are not enabled.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from tests.real.parts import PartMissing, manifests
from tests.real.plane import RealControlPlane, free_port
from tests.real.sides import Side

FRAMEWORKS = (
    "batch/job",
    "pod",
    "deployment",
    "statefulset",
    "ray.io/raycluster",
    "ray.io/rayjob",
    "jobset.x-k8s.io/jobset",
    "trainer.kubeflow.org/trainjob",
    *(f"kubeflow.org/{kind}" for kind in ("pytorchjob", "tfjob", "xgboostjob", "paddlejob", "jaxjob", "mpijob")),
)
NAMESPACE = "kueue-system"
# Their stored version differs from the one people may still use, and the manager converts.
CONVERTED = ("localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters")
HOOKED_GROUPS = (
    "",
    "apps",
    "batch",
    "ray.io",
    "kueue.x-k8s.io",
    "jobset.x-k8s.io",
    "kubeflow.org",
    "trainer.kubeflow.org",
)
# The manager looks for the certificate of its metrics here and nowhere else.
METRICS_CERTIFICATES = Path("/etc/kueue/metrics/certs")
SPARED_NAMESPACES = ("kube-system", NAMESPACE)


def start_kueue(plane: RealControlPlane, side: Side, settings: dict[str, Any] | None = None) -> None:
    """`settings` are laid over the configuration, key by key."""
    port, probe = free_port(), free_port()
    authority = base64.b64encode(plane.certificate_authority.read_bytes()).decode()
    hooks = Hooks(f"https://127.0.0.1:{port}", authority)
    define(plane, side, [*hooks.definitions()])
    apply(side, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    certificates = plane.home / "kueue"
    certificates.mkdir(exist_ok=True)
    _place(plane, certificates)
    _metrics_certificates(plane)
    configuration = plane.home / "kueue.yaml"
    configuration.write_text(yaml.safe_dump(_configuration(port, probe, certificates) | (settings or {})))
    plane.spawn(
        "kueue",
        kubeconfig=plane.kubeconfig,
        config=configuration,
        # Its visibility server would have to be known to the API server as one of its own.
        feature_gates="VisibilityOnDemand=false",
        zap_log_level=2,
    )
    plane.wait_for("/readyz", f"http://127.0.0.1:{probe}")
    for configuration_of_hooks in hooks.configurations():
        apply(side, configuration_of_hooks)


class Hooks:
    """Kueue's manifests with the addresses of this machine."""

    def __init__(self, url: str, authority: str) -> None:
        self._url, self._authority = url, authority
        self._folder = manifests("kueue") / "config" / "components"

    def definitions(self) -> Iterator[dict[str, Any]]:
        for file in sorted((self._folder / "crd" / "bases").glob("*.yaml")):
            definition = document(file)
            if definition["spec"]["names"]["plural"] in CONVERTED:
                webhook = {"clientConfig": self._client("/convert"), "conversionReviewVersions": ["v1"]}
                definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
            yield definition

    def configurations(self) -> Iterator[dict[str, Any]]:
        for found in yaml.safe_load_all((self._folder / "webhook" / "manifests.yaml").read_text()):
            found["metadata"]["name"] = f"kueue-{found['metadata']['name']}"
            found["webhooks"] = [self._here(hook) for hook in found["webhooks"] if _wanted(hook)]
            yield found

    def _here(self, hook: dict[str, Any]) -> dict[str, Any]:
        hook["clientConfig"] = self._client(hook["clientConfig"]["service"]["path"])
        if not hook["clientConfig"]["url"].endswith(("resourceflavor", "clusterqueue", "cohort", "workload")):
            spared = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [*SPARED_NAMESPACES]}
            hook["namespaceSelector"] = {"matchExpressions": [spared]}
        return hook

    def _client(self, path: str) -> dict[str, str]:
        return {"url": self._url + path, "caBundle": self._authority}


def _wanted(hook: dict[str, Any]) -> bool:
    kinds = {resource for rule in hook["rules"] for resource in rule["resources"]}
    groups = {group for rule in hook["rules"] for group in rule["apiGroups"]}
    return groups <= set(HOOKED_GROUPS) and "rayservices" not in kinds


def _configuration(port: int, probe: int, certificates: Path) -> dict[str, Any]:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{probe}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": 300, "burst": 500},
        "integrations": {"frameworks": [*FRAMEWORKS]},
    }


def _place(plane: RealControlPlane, folder: Path) -> None:
    certificate, key = plane.authority.issue("kueue", "kueue-webhook")
    (folder / "tls.crt").write_bytes(certificate.read_bytes())
    (folder / "tls.key").touch(mode=0o600)
    (folder / "tls.key").write_bytes(key.read_bytes())


def _metrics_certificates(plane: RealControlPlane) -> None:
    if (METRICS_CERTIFICATES / "tls.key").exists():
        return
    try:
        METRICS_CERTIFICATES.mkdir(parents=True, exist_ok=True)
        _place(plane, METRICS_CERTIFICATES)
    except OSError as problem:
        raise PartMissing(f"Kueue wants tls.crt and tls.key in {METRICS_CERTIFICATES}: {problem}") from None


def apply(side: Side, obj: dict[str, Any]) -> None:
    """By server-side apply; what the server refuses is an error."""
    group, _, version = obj["apiVersion"].rpartition("/")
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    path = f"{root}/{obj['kind'].lower()}s/{obj['metadata']['name']}?fieldManager=installer&force=true"
    answer = side.send("PATCH", path, json.dumps(obj), {"Content-Type": "application/apply-patch+yaml"})
    if answer.status not in (200, 201):
        raise RuntimeError(f"{obj['kind']} {obj['metadata']['name']}: {answer.body.decode()}")


def define(plane: RealControlPlane, side: Side, definitions: Sequence[dict[str, Any]]) -> None:
    """Makes kinds, and waits until the server knows them. They are large, and nobody has made them before."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for each in definitions:
        answer = side.send("POST", path, json.dumps(each), {"Content-Type": "application/json"})
        if answer.status != 201:
            raise RuntimeError(f"{each['metadata']['name']}: {answer.body.decode()}")
    for each in definitions:
        established(plane, each)


def document(file: Path) -> dict[str, Any]:
    """A file of one document, read by the fast reader: definitions have megabytes."""
    found: dict[str, Any] = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
    return found


def established(plane: RealControlPlane, definition: dict[str, Any]) -> None:
    spec = definition["spec"]
    version = next(each["name"] for each in spec["versions"] if each["storage"])
    plane.wait_for(f"/apis/{spec['group']}/{version}/{spec['names']['plural']}")
