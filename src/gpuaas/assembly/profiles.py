"""Hardware profiles at admission: injection into workloads, older shapes of profiles, and warnings for their authors.

The rules are package profiles'; here they get the profiles and nodes there are, from the store as it is at this very
write. `--strict odh` answers as Open Data Hub's operator; otherwise module admission decides. Parts of the control plane
write objects that were judged when people wrote them, and are not asked again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from gpuaas.api.kinds import Object
from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.operation import Operation
from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import ApiError, BadRequest, Invalid
from gpuaas.base.quantity import parse_quantity
from gpuaas.profiles import admission, legacy, offered, webhook
from gpuaas.profiles.inject import identifiers
from gpuaas.profiles.paths import annotation
from gpuaas.profiles.queue_label import review_deprecated
from gpuaas.profiles.workloads import UPSTREAM, WORKLOADS, Workload

Old = Mapping[str, Any] | None

APPLICATIONS: Final = ("redhat-ods-applications", "opendatahub")
"""The namespaces whose profiles everybody may use, as the two distributions call theirs."""
_LOOKED_AT: Final = 100  # identifiers of a profile
_WARNED: Final = 4  # mistakes that are named
GROUP: Final = "infrastructure.opendatahub.io"
PLURAL: Final = "hardwareprofiles"
_HOOKS: Final = {
    "Notebook": "hardwareprofile-notebook-injector.opendatahub.io",
    "InferenceService": "hardwareprofile-isvc-injector.opendatahub.io",
    "LLMInferenceService": "hardwareprofile-llmisvc-injector.opendatahub.io",
    "HardwareProfile": "dashboard-hardwareprofile-validator.opendatahub.io",
}


class Refused(ApiError):
    """In the name of upstream's webhook, with the code it answers."""

    reason = ""

    def __init__(self, hook: str, answer: webhook.Answer) -> None:
        super().__init__(f'admission webhook "{hook}" denied the request: {answer.message}')
        self.code, self.reason = answer.code, answer.reason


def install_profiles(cluster: Cluster, *, strict: bool) -> None:
    """Before the webhooks of jobs, which look for the queue a profile names."""
    store = Stored(cluster)
    if strict:
        hook = _Upstream(cluster, store)
        for group, plural in UPSTREAM:
            cluster.admission.register(group, plural, hook.inject)
        cluster.admission.register(legacy.OLD_GROUP, PLURAL, hook.refuse_old)
        return
    for (group, plural), workload in WORKLOADS.items():
        cluster.admission.register(group, plural, partial(_apply, store, workload))
    cluster.reshapers[GROUP, PLURAL] = legacy.convert
    cluster.admission.register(GROUP, PLURAL, _warn_of_mistakes)
    cluster.admission.register(legacy.OLD_GROUP, PLURAL, _tell_new_form)


class Stored:
    """The profiles of a cluster. Those of the dashboard's old kind count as what they are converted to."""

    def __init__(self, cluster: Cluster) -> None:
        self._store = cluster.store

    def get(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        entry = self._store.latest(f"{GROUP}/{PLURAL}/{namespace}/{name}")
        return entry.obj if entry is not None else None

    def listed(self, namespace: str) -> Sequence[Mapping[str, Any]]:
        found = {one.obj["metadata"]["name"]: one.obj for one in self._store.list(f"{GROUP}/{PLURAL}/{namespace}/")}
        for entry in self._store.list(f"{legacy.OLD_GROUP}/{PLURAL}/{namespace}/"):
            name = entry.obj["metadata"]["name"]
            if name not in found:
                found[name] = legacy.convert(entry.obj)[0]
        return list(found.values())

    def nodes(self) -> Any:
        return self._store.list("/nodes/")


class _Upstream:
    def __init__(self, cluster: Cluster, stored: Stored) -> None:
        self._cluster = cluster
        self._stored = stored

    def inject(self, op: Operation, obj: Object, old: Old) -> None:
        if op.subresource:
            return
        answer = webhook.review("CREATE" if old is None else "UPDATE", obj, old, self._stored.get)
        if not answer.allowed:
            raise Refused(_HOOKS.get(op.kind.kind, _HOOKS["Notebook"]), answer)
        op.warnings.extend(answer.warnings)
        if not op.dry_run:
            for event in answer.events:
                self._tell(op, obj, event)
        if answer.object is not None:
            _become(obj, answer.object)

    def _tell(self, op: Operation, obj: Object, event: webhook.Event) -> None:
        now = rfc3339(self._cluster.clock.now())
        metadata = {"name": event.name, "namespace": event.namespace, "uid": self._cluster.ids.uid()}
        about = {"kind": op.kind.kind, "apiVersion": op.kind.api_version, "namespace": event.namespace}
        self._cluster.put_quietly(
            f"/events/{event.namespace}/{event.name}",
            {
                "kind": "Event",
                "apiVersion": "v1",
                "metadata": {**metadata, "creationTimestamp": now},
                "involvedObject": {**about, "name": obj["metadata"].get("name", "")},
                "reason": event.reason,
                "message": event.message,
                "type": "Warning",
                "count": 1,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "source": {"component": "hardware-profile-webhook"},
            },
        )

    def refuse_old(self, op: Operation, _obj: Object, old: Old) -> None:
        if op.subresource:
            return
        answer = review_deprecated("CREATE" if old is None else "UPDATE", op.kind.api_version, op.kind.kind)
        if not answer.allowed:
            raise Refused(_HOOKS["HardwareProfile"], answer)


def _apply(stored: Stored, workload: Workload, op: Operation, obj: Object, old: Old) -> None:
    if op.in_process or op.subresource:
        return
    if not annotation(obj, webhook.NAME) and (old is None or not annotation(old, webhook.NAME)):
        return
    profiles = admission.Profiles(stored.listed, APPLICATIONS)
    answer = admission.review(workload, obj, old, profiles, op.namespace)
    name = obj["metadata"].get("name") or ""
    if answer.refusal:
        raise BadRequest(answer.refusal)
    if answer.errors:
        raise Invalid(op.resource.group, op.kind.kind, name, list(answer.errors))
    op.warnings.extend(answer.warnings)
    if answer.object is not obj:
        _become(obj, answer.object)
    if old is None:
        op.warnings.extend(_not_offered(stored, profiles, obj, op.namespace))


def _not_offered(stored: Stored, profiles: admission.Profiles, obj: Object, own: str) -> list[str]:
    """Of resources in the profile that no node has: the pods would wait for ever, and a quota may even admit them."""
    name = annotation(obj, webhook.NAME)
    profile = profiles.find(name, annotation(obj, webhook.NAMESPACE), own)
    wanted = {str(one.get("identifier")) for one in identifiers(profile or {}) if admission.is_accelerator(one)}
    for entry in stored.nodes():
        if not wanted:
            break
        wanted -= {key for key in (entry.obj.get("status") or {}).get("allocatable") or () if key in wanted}
    return [f"hardware profile '{name}': no node of this cluster offers {one}" for one in sorted(wanted)]


def _warn_of_mistakes(op: Operation, obj: Object, _old: Old) -> None:
    """What the schema lets pass, and what then goes wrong for those who name the profile."""
    spec = obj.get("spec")
    if op.subresource or op.in_process or not isinstance(spec, dict) or not isinstance(spec.get("identifiers"), list):
        return
    for index, identifier in enumerate(spec["identifiers"][:_LOOKED_AT]):
        if not isinstance(identifier, dict):
            continue
        for field in ("minCount", "defaultCount", "maxCount"):
            if field in identifier and _unreadable(identifier[field]):
                op.warnings.append(
                    f"spec.identifiers[{index}].{field}: {identifier[field]!r} is no amount: workloads that name this"
                    " profile are refused"
                )
                return
    try:
        op.warnings.extend(one for one in offered.warnings(obj)[:_WARNED] if one != offered.INCOMPLETE)
    except (AttributeError, KeyError, TypeError, ValueError):
        return  # of another type: the schema says so


def _unreadable(count: Any) -> bool:
    try:
        parse_quantity(count)
    except ValueError:
        return True
    return False


def _tell_new_form(op: Operation, obj: Object, _old: Old) -> None:
    if op.subresource or op.in_process:
        return
    read, moved = legacy.convert(obj)
    meta = obj["metadata"]
    where = f"{op.namespace}/{meta.get('name') or meta.get('generateName', '')}"
    op.warnings.append(f"{op.kind.api_version} HardwareProfile is read as {read['apiVersion']} HardwareProfile {where}")
    op.warnings.extend(moved)


def _become(obj: Object, other: Mapping[str, Any]) -> None:
    if other is not obj:
        changed = dict(other)
        obj.clear()
        obj.update(changed)
