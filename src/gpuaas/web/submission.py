"""The submit form: its fields and the manifest beside it, each made from the other.

The fields own a few places of the manifest (name, profile, queue, command, GPUs); whatever else stands in the manifest
stays when the fields change it. So both can be edited, and neither loses what was written in the other.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gpuaas.base.errors import BadRequest
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import JOBS
from gpuaas.machinery.yamlreader import Limits, YamlError
from gpuaas.machinery.yamltext import dump_yaml, load_yaml
from gpuaas.nodefit.names import PROCESS_CLASS
from gpuaas.profiles.webhook import NAME as PROFILE
from gpuaas.views.notebooks import NOTEBOOKS, QUEUE
from gpuaas.web.page import Form

KINDS: Final[Mapping[str, Resource]] = {"job": JOBS, "notebook": NOTEBOOKS}
LONGEST: Final = 12_000  # characters of a manifest in the form
_LIMITS: Final = Limits(size=LONGEST, values=2_000, expansion=LONGEST, depth=40, documents=1)
_GPU: Final = "nvidia.com/gpu"
_DEFAULT_COMMAND: Final = "nvidia-smi"
_POD: Final = ("spec", "template", "spec")
_RESOURCES: Final = (*_POD, "containers", "resources")
_MAPS: Final = (
    *(("metadata", part) for part in ("annotations", "labels")),
    *(_POD[: length + 1] for length in range(len(_POD))),
    (*_POD, "containers"),
    _RESOURCES,
    *((*_RESOURCES, part) for part in ("requests", "limits")),
)
"""The maps that the form reads, parents first, and the one list: of containers it reads the first."""
Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fields:
    kind: str = "job"
    name: str = ""
    profile: str = ""
    queue: str = ""
    command: str = _DEFAULT_COMMAND
    gpus: str = "0"


def fields_of(form: Form) -> Fields:
    """As the form was filled in. Raises BadRequest for what no field can hold."""
    kind = form.get("kind") or "job"
    if kind not in KINDS:
        raise BadRequest(f"kind: {kind[:40]!r} was found; {' or '.join(KINDS)} was expected")
    gpus = form.get("gpus", "").strip() or "0"
    if not re.fullmatch("[0-9]{1,4}", gpus):
        raise BadRequest(f"gpus: {gpus[:40]!r} was found; a number was expected")
    texts = {name: form.get(name, "").strip() for name in ("name", "profile", "queue")}
    return Fields(kind, command=form.get("command", _DEFAULT_COMMAND).strip(), gpus=gpus, **texts)


def read_manifest(text: str) -> Manifest:
    """Raises BadRequest with where and why."""
    try:
        found = load_yaml(text, _LIMITS)
    except YamlError as error:
        raise BadRequest(f"manifest: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("metadata"), dict):
        raise BadRequest("manifest: an object with metadata was expected")
    kind_of(found)
    _check_types(found)
    return found


def _check_types(manifest: Manifest) -> None:
    """Of what the form reads; the API checks the rest. Raises BadRequest for the first part of another type."""
    for path in _MAPS:
        at: Any = manifest
        for key in path:
            at = at[0] if isinstance(at, list) and at else at
            at = at.get(key) if isinstance(at, dict) else None
        wanted, word = (list, "a list") if path[-1] == "containers" else (dict, "a map")
        if at is not None and not isinstance(at, wanted):
            raise BadRequest(f"manifest: {'.'.join(path)}: {word} was expected, {str(at)[:40]!r} was found")
        if isinstance(at, list) and at and not isinstance(at[0], dict):
            raise BadRequest(f"manifest: {'.'.join(path)}[0]: a map was expected, {str(at[0])[:40]!r} was found")


def kind_of(manifest: Manifest) -> str:
    """`job` or `notebook`."""
    said = (manifest.get("apiVersion"), manifest.get("kind"))
    for name, resource in KINDS.items():
        if said == (resource.api_version, resource.kind):
            return name
    wanted = " or ".join(f"{each.api_version} {each.kind}" for each in KINDS.values())
    raise BadRequest(f"manifest: {said[0]} {said[1]} was found; {wanted} was expected")


def written(manifest: Manifest) -> str:
    return dump_yaml(manifest)


def fields_in(manifest: Manifest) -> Fields:
    """What the fields show of a manifest."""
    metadata = manifest["metadata"]
    container = _container(manifest)
    words = container.get("command") or []
    limits = (container.get("resources") or {}).get("limits") or {}
    return Fields(
        kind_of(manifest),
        str(metadata.get("name") or ""),
        str((metadata.get("annotations") or {}).get(PROFILE) or ""),
        str((metadata.get("labels") or {}).get(QUEUE) or ""),
        shlex.join(map(str, words)) if isinstance(words, list) else "",
        str(limits.get(_GPU, "0")) if isinstance(limits, Mapping) else "0",
    )


def manifest_of(fields: Fields, namespace: str, base: Manifest | None, *, local: bool) -> Manifest:
    """The manifest with the fields in their places. `base`: the one that was there. `local`: the cluster's node is a
    machine that runs processes. Raises BadRequest for a command that no shell would read."""
    resource = KINDS[fields.kind]
    if base is not None and kind_of(base) != fields.kind:
        base = None
    manifest: Manifest = {**(base or {}), "apiVersion": resource.api_version, "kind": resource.kind}
    manifest["metadata"] = _metadata(fields, namespace, (base or {}).get("metadata") or {})
    container = {"name": fields.name or "main", **_container(base or {})}
    container = _with_amounts(container, fields)
    container.setdefault("image", "local-process" if local else "simulated")
    if fields.kind == "job":
        container["command"] = _words(fields.command)
    pod = {**_pod(base or {}), "containers": [container, *_others(base or {})]}
    if local:
        pod.setdefault("runtimeClassName", PROCESS_CLASS)
    if fields.kind == "job":
        pod.setdefault("restartPolicy", "Never")
    spec = dict((base or {}).get("spec") or {}) or ({"backoffLimit": 0} if fields.kind == "job" else {})
    manifest["spec"] = {**spec, "template": {**(spec.get("template") or {}), "spec": pod}}
    return manifest


def _metadata(fields: Fields, namespace: str, before: Mapping[str, Any]) -> Manifest:
    metadata = {**before, "namespace": namespace}
    metadata.pop("generateName", None)
    metadata.pop("name", None)
    metadata |= {"name": fields.name} if fields.name else {"generateName": f"{fields.kind}-"}
    for part, key, text in (("annotations", PROFILE, fields.profile), ("labels", QUEUE, fields.queue)):
        kept = {name: value for name, value in (before.get(part) or {}).items() if name != key}
        kept |= {key: text} if text else {}
        metadata.pop(part, None)
        metadata |= {part: kept} if kept else {}
    return metadata


def _with_amounts(container: Manifest, fields: Fields) -> Manifest:
    """GPUs are the field's, unless a profile decides."""
    resources = container.get("resources") or {}
    parts = {}
    for part in ("requests", "limits"):
        amounts = {name: amount for name, amount in (resources.get(part) or {}).items() if name != _GPU}
        if fields.gpus != "0" and not fields.profile:
            amounts[_GPU] = fields.gpus
        if amounts:
            parts[part] = amounts
    rest = {name: value for name, value in container.items() if name != "resources"}
    return {**rest, "resources": parts} if parts else rest


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadRequest(f"command: {error}") from None
    if not words:
        raise BadRequest("command: nothing was found; a program such as: python train.py")
    return words


def _pod(manifest: Mapping[str, Any]) -> Manifest:
    found: Any = manifest
    for key in ("spec", "template", "spec"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return dict(found) if isinstance(found, Mapping) else {}


def _container(manifest: Mapping[str, Any]) -> Manifest:
    containers = _pod(manifest).get("containers")
    first = containers[0] if isinstance(containers, list) and containers else {}
    return dict(first) if isinstance(first, Mapping) else {}


def _others(manifest: Mapping[str, Any]) -> list[Any]:
    containers = _pod(manifest).get("containers")
    return list(containers[1:]) if isinstance(containers, list) else []


def with_defaults(fields: Fields, queues: list[str], profile_queue: str) -> Fields:
    """A queue is chosen where there is only one to choose; a profile with a queue brings its own."""
    if profile_queue or fields.queue:
        return replace(fields, queue="" if profile_queue else fields.queue)
    return replace(fields, queue="default" if "default" in queues else queues[0] if len(queues) == 1 else "")
