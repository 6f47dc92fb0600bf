"""The submit form: profiles with what is free for the visitor, the manifest beside the fields, and a prediction.

The prediction is made of the object as admission would store it (a dry run), which the live engine tries and puts back.
The form works without a script: each button shows the page again with both halves in step.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from gpuaas.base.errors import ApiError, BadRequest
from gpuaas.base.numbers import natural
from gpuaas.client.kueue import LOCAL_QUEUES, PRIORITY_CLASSES, WORKLOADS
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import JOBS
from gpuaas.kueue.submission import priority_class_of, workload_for
from gpuaas.nodefit.names import PROCESS_CLASS
from gpuaas.web import submission
from gpuaas.web.page import Action, Context, Field, Form, Page, Visit
from gpuaas.web.pages.parts import GPU, address, allowed
from gpuaas.web.pages.profiles import profile_rows
from gpuaas.web.submission import KINDS, LONGEST, Fields, Manifest

_CLASSES: Final = Resource("node.k8s.io", "v1", "runtimeclasses", False, "RuntimeClass")
_NO_NAMESPACE: Final = "You may submit to no namespace that has a queue; an administrator can allow it."


async def _load(visit: Visit) -> Context:
    places = visit.views.namespaces(visit.user, "create", JOBS)
    namespace = visit.query.get("namespace") or ("default" if "default" in places else next(iter(places), ""))
    if not namespace:
        return {
            "namespace": "",
            "places": [],
            "problem": _NO_NAMESPACE,
            "fields": Fields(),
            "manifest": "",
            "effect": "",
        }
    rows = [row for row in await profile_rows(visit, namespace) if not row.hidden]
    queues = [one["metadata"]["name"] for one in await _queues(visit, namespace)]
    problem = effect = text = ""
    fields = Fields()
    try:
        fields, manifest = await _both(visit, namespace, queues, {row.profile: row.queue for row in rows})
        text = submission.written(manifest)
        effect = await predicted(visit, manifest)
    except ApiError as error:
        problem = error.message
        text = text or visit.query.get("manifest", "")
    return {
        "namespace": namespace,
        "places": [(name, None, visit.url(address("/submit", namespace=name)), name == namespace) for name in places],
        "kinds": list(KINDS),
        "rows": rows,
        "queues": queues,
        "fields": fields,
        "manifest": text,
        "effect": effect,
        "problem": problem,
        "target": visit.url(f"/submit/{fields.kind}"),
        "longest": LONGEST,
    }


async def _queues(visit: Visit, namespace: str) -> list[Object]:
    return list(await visit.api.list(LOCAL_QUEUES, namespace)) if visit.may("list", LOCAL_QUEUES, namespace) else []


async def _both(
    visit: Visit, namespace: str, queues: list[str], profile_queues: dict[str, str]
) -> tuple[Fields, Manifest]:
    """Fields and manifest in step: the half whose button was pressed decides."""
    text = visit.query.get("manifest", "")
    if len(text) > LONGEST:
        raise BadRequest(f"manifest: {len(text)} characters; at most {LONGEST} are allowed")
    base = submission.read_manifest(text) if text.strip() else None
    if base is not None and visit.query.get("from") == "manifest":
        base["metadata"]["namespace"] = namespace
        return submission.fields_in(base), base
    fields = submission.fields_of(visit.query)
    if not visit.query.get("kind") and not fields.profile:
        fields = submission.fields_of({**visit.query, "profile": next(iter(profile_queues), "")})
    fields = submission.with_defaults(fields, queues, profile_queues.get(fields.profile, ""))
    return fields, submission.manifest_of(fields, namespace, base, local=await _is_local(visit, namespace))


async def _is_local(visit: Visit, namespace: str) -> bool:
    """Whether this machine runs what is submitted, and the visitor may have it do so."""
    if not visit.may("use", _CLASSES, namespace, PROCESS_CLASS):
        return False
    try:
        await visit.api.get(_CLASSES, PROCESS_CLASS)
    except ApiError:
        return False
    return True


async def predicted(visit: Visit, manifest: Manifest) -> str:
    """What would become of it, in one sentence. Raises ApiError with what admission says against it."""
    resource = KINDS[submission.kind_of(manifest)]
    namespace = str(manifest["metadata"].get("namespace") or "")
    admitted = await visit.api.create(resource, manifest, namespace, dry_run=True)
    workload = workload_for(admitted, await _priority(visit, admitted), visit.now)
    if workload is None or not workload["spec"]["queueName"]:
        return "It names no queue: nothing counts it against a quota, and it may wait for ever."
    if visit.views.effects is None:
        return "The admission engine does not know the queues yet."
    found = visit.views.effects.of_submission(workload)
    words = found.sentence(lambda where: visit.may("list", WORKLOADS, where)) + "."
    return f"{words}{_unplaced(visit, namespace, workload)}" if found.starts else words


def _unplaced(visit: Visit, namespace: str, workload: Manifest) -> str:
    """What quota does not see: a pod has to fit on one node, and GPUs may be free on several."""
    wanted = max((_gpus_of(one["template"].get("spec") or {}) for one in workload["spec"]["podSets"]), default=0)
    rows = allowed(lambda: visit.views.free(visit.user, namespace)) if wanted else None
    if rows is None:
        return ""
    largest = max((row.largest for row in rows if row.resource == GPU), default=0)
    if wanted <= largest:
        return ""
    most = f"the most that is free on one node is {largest}" if largest else "no node has one free"
    return f" Its pods would wait for a node: each asks for {wanted} GPUs, and {most}."


def _gpus_of(pod: Manifest) -> int:
    amounts = [(one.get("resources") or {}).get("requests") or {} for one in pod.get("containers") or ()]
    return sum(natural(str(each.get(GPU, 0))) or 0 for each in amounts)


async def _priority(visit: Visit, obj: Any) -> int:
    name = priority_class_of(obj)
    if not name:
        return 0
    try:
        return int((await visit.api.get(PRIORITY_CLASSES, name)).get("value") or 0)
    except ApiError:
        return 0


# -- Submitting ---------------------------------------------------------------------------------------------------------


def _may(kind: str, visit: Visit) -> bool:
    return bool(visit.views.namespaces(visit.user, "create", KINDS[kind]))


async def _effect(visit: Visit, form: Form) -> str:
    return await predicted(visit, submission.read_manifest(form["manifest"]))


async def _submit(visit: Visit, form: Form) -> str:
    manifest = submission.read_manifest(form["manifest"])
    kind = submission.kind_of(manifest)
    namespace = str(manifest["metadata"].get("namespace") or "")
    made = await visit.api.create(KINDS[kind], manifest, namespace)
    return f"{kind}/{made['metadata']['name']} is submitted to namespace {namespace}."


SUBMIT: Final = tuple(
    Action(
        f"submit-{kind}",
        f"/submit/{kind}",
        f"Submit a {kind}",
        "Submit",
        partial(_may, kind),
        _effect,
        _submit,
        f"/{kind}s",
        (Field("manifest", "Manifest", longest=LONGEST),),
    )
    for kind in KINDS
)

PAGE = Page("submit", "/submit", "Submit", "submit.html", _load, nav="Submit")
