"""Every workload has an owner: the user who created it. Nobody can forge one, and nothing changes it later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gpuaas.api.owner import OWNER, owner_named
from gpuaas.apiserver.local import LocalClient
from gpuaas.apiserver.owners import OWNED
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import JOBS, PODS

from .conftest import APPLY, JSON_PATCH, MERGE, STRATEGIC, Answer, Api

TEAM = "/api/v1/namespaces/team"
BATCH = "/apis/batch/v1/namespaces/team/jobs"


@pytest.fixture(scope="module")
def team(api: Api) -> None:
    """ann and bob may edit in the namespace, deputy may also set owners there."""
    assert api.send("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}}).status == 201
    assert api.send("POST", f"{TEAM}/serviceaccounts", {"metadata": {"name": "default"}}).status == 201
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rule = {"verbs": ["set-owner"], "apiGroups": ["batch"], "resources": ["jobs"]}
    assert api.send("POST", f"{rbac}/clusterroles", {"metadata": {"name": "deputies"}, "rules": [rule]}).status == 201
    for role, users in {"edit": ("ann", "bob", "ann@example.com", "deputy"), "deputies": ("deputy",)}.items():
        body = {
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user} for user in users],
        }
        assert api.send("POST", f"{rbac}/namespaces/team/rolebindings", body).status == 201


pytestmark = pytest.mark.usefixtures("team")
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}


def job(name: str, owner: str | None = None, **metadata: Any) -> Object:
    notes = {} if owner is None else {"annotations": {OWNER: owner}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, **notes, **metadata},
        "spec": {"template": TEMPLATE},
    }


def as_user(
    api: Api, user: str, method: str, path: str, body: Any, content: str = "application/json", **query: Any
) -> Answer:
    return api.send(method, path, body, content, {"impersonate-user": user}, **query)


def owner(answer: Answer) -> str:
    assert answer.status in (200, 201), answer.body
    return owner_named(answer.body)


@pytest.mark.parametrize(
    ("user", "said", "kept"),
    [
        ("ann", None, "ann"),
        ("ann", "ann", "ann"),
        ("ann", "bob", "ann"),
        ("ann", "", "ann"),
        ("ann@example.com", "bob", "ann@example.com"),
        ("deputy", "bob", "bob"),
        ("deputy", None, "deputy"),
    ],
)
@pytest.mark.parametrize("how", ["create", "apply"])
def test_a_new_job_is_its_creators_whatever_the_manifest_says(
    api: Api, how: str, user: str, said: str | None, kept: str
) -> None:
    name = f"new-{how}-{user.replace('@', '.')}-{said or ('none' if said is None else 'empty')}"
    if how == "create":
        made = as_user(api, user, "POST", BATCH, job(name, said))
    else:
        made = as_user(api, user, "PATCH", f"{BATCH}/{name}", job(name, said), APPLY, fieldManager="test")
    assert owner(made) == kept
    assert bool(made.warnings) == (said not in (None, "", kept)), made.warnings
    assert all("set-owner" in each and "jobs.batch" in each for each in made.warnings)


PATCHES: dict[str, tuple[str, Any]] = {
    "merge": (MERGE, {"metadata": {"annotations": {OWNER: "bob"}}}),
    "strategic": (STRATEGIC, {"metadata": {"annotations": {OWNER: "bob"}}}),
    "json": (
        JSON_PATCH,
        [{"op": "replace", "path": f"/metadata/annotations/{OWNER.replace('/', '~1')}", "value": "bob"}],
    ),
    "removed": (MERGE, {"metadata": {"annotations": {OWNER: None}}}),
    "all removed": (MERGE, {"metadata": {"annotations": None}}),
}


@pytest.mark.parametrize("user", ["ann", "bob", "deputy"])
@pytest.mark.parametrize("at", ["", "/status"])
@pytest.mark.parametrize(("content", "patch"), PATCHES.values(), ids=PATCHES)
def test_no_patch_changes_the_owner(api: Api, content: str, patch: Any, at: str, user: str) -> None:
    if api.send("GET", f"{BATCH}/patched").status == 404:
        as_user(api, "ann", "POST", BATCH, job("patched"))
    before = api.send("GET", f"{BATCH}/patched").body
    headers = {} if at else {"impersonate-user": user}  # tenants write no status
    changed = api.send("PATCH", f"{BATCH}/patched{at}", patch, content, headers)
    assert owner(changed) == "ann"
    assert changed.body["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"], "nothing was written"
    assert bool(changed.warnings) == ("bob" in str(patch))


def test_no_update_and_no_apply_changes_the_owner(api: Api) -> None:
    as_user(api, "ann", "POST", BATCH, job("replaced"))
    found = api.send("GET", f"{BATCH}/replaced").body
    for said in ({OWNER: "bob"}, {}):
        found["metadata"]["annotations"] = said
        found["metadata"]["labels"] = {"said": "yes" if said else "no"}
        found["metadata"].pop("resourceVersion", None)
        changed = as_user(api, "bob", "PUT", f"{BATCH}/replaced", found)
        assert owner(changed) == "ann"
        assert changed.body["metadata"]["labels"] == found["metadata"]["labels"], "the rest is taken"
    for force in ("true", "false"):
        config = job("replaced", "bob")
        applied = as_user(api, "bob", "PATCH", f"{BATCH}/replaced", config, APPLY, fieldManager="bob", force=force)
        assert owner(applied) == "ann"
    assert owner(api.send("GET", f"{BATCH}/replaced")) == "ann"


@pytest.mark.parametrize("user", ["ann", "deputy"])
def test_a_forged_reference_inherits_nothing_from_anothers_job(api: Api, user: str) -> None:
    bobs = as_user(api, "bob", "POST", BATCH, job(f"of-bob-{user}")).body["metadata"]
    reference = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": bobs["name"],
        "uid": bobs["uid"],
        "controller": True,
    }
    pod = {"metadata": {"name": f"forged-{user}", "ownerReferences": [reference]}, "spec": TEMPLATE["spec"]}
    assert owner(as_user(api, user, "POST", f"{TEAM}/pods", pod)) == user  # the deputy may set owners of jobs alone


def test_a_scheduled_job_of_another_cannot_be_started_in_their_name(api: Api) -> None:
    """As `kubectl create job --from=cronjob/nightly` does it: with a reference to the CronJob."""
    spec = {"schedule": "@daily", "jobTemplate": {"spec": {"template": TEMPLATE}}}
    where = "/apis/batch/v1/namespaces/team/cronjobs"
    nightly = as_user(api, "bob", "POST", where, {"metadata": {"name": "nightly"}, "spec": spec}).body["metadata"]
    reference = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": "nightly",
        "uid": nightly["uid"],
        "controller": True,
    }
    assert owner(as_user(api, "ann", "POST", BATCH, job("started", ownerReferences=[reference]))) == "ann"


def inside(api: Api, resource: Resource, obj: Object) -> Object:
    client = LocalClient(api.parts.cluster, api.parts.access.system_user("controllers"), "gpuaas")
    made: Object = api.run(asyncio.wait_for(client.create(resource, obj, "team"), 30))
    return made


def below(parent: Object, name: str, notes: dict[str, str] | None = None, **reference: Any) -> Object:
    meta = parent["metadata"]
    reference = {
        "apiVersion": parent["apiVersion"],
        "kind": parent["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        **reference,
    }
    return {"name": name, "ownerReferences": [reference], **({"annotations": notes} if notes else {})}


def _pod(parent: Object, name: str, **more: Any) -> tuple[Resource, Object]:
    return PODS, {"metadata": below(parent, name, **more), "spec": TEMPLATE["spec"]}


INHERITED: dict[str, tuple[Callable[[Object], tuple[Resource, Object]], str]] = {
    "pod of a job": (lambda parent: _pod(parent, "c-1"), "ann"),
    "forged in the template": (lambda parent: _pod(parent, "c-2", notes={OWNER: "bob"}), "ann"),
    "not the controller": (lambda parent: _pod(parent, "c-3", controller=False), "ann"),
    "another object's uid": (lambda parent: _pod(parent, "c-4", notes={OWNER: "bob"}, uid="other"), ""),
    "of a kind without owners": (
        lambda parent: _pod(parent, "c-5", notes={OWNER: "bob"}, apiVersion="v1", kind="ConfigMap"),
        "system:gpuaas:controllers",
    ),
    "workload of a job": (
        lambda parent: (
            WORKLOADS,
            {
                "metadata": below(parent, "c-6"),
                "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": TEMPLATE}]},
            },
        ),
        "ann",
    ),
}


@pytest.mark.parametrize(("child", "kept"), INHERITED.values(), ids=INHERITED)
def test_what_a_controller_makes_of_a_job_is_the_jobs_owners(
    api: Api, child: Callable[[Object], tuple[Resource, Object]], kept: str
) -> None:
    if api.send("GET", f"{BATCH}/parent").status == 404:
        as_user(api, "ann", "POST", BATCH, job("parent"))
    parent = api.send("GET", f"{BATCH}/parent").body
    resource, obj = child(parent)
    assert owner_named(inside(api, resource, obj)) == kept


def test_the_owner_goes_down_all_the_way(api: Api) -> None:
    cron = {"schedule": "@daily", "jobTemplate": {"spec": {"template": TEMPLATE}}}
    where = "/apis/batch/v1/namespaces/team/cronjobs"
    top = as_user(api, "ann@example.com", "POST", where, {"metadata": {"name": "daily"}, "spec": cron}).body
    child = inside(
        api,
        JOBS,
        {
            "metadata": below({**top, "kind": "CronJob", "apiVersion": "batch/v1"}, "daily-1"),
            "spec": {"template": TEMPLATE},
        },
    )
    pod = inside(api, *_pod({**child, "kind": "Job", "apiVersion": "batch/v1"}, "daily-1-x"))
    assert (owner_named(child), owner_named(pod)) == ("ann@example.com", "ann@example.com")


def test_service_accounts_own_what_they_create(api: Api) -> None:
    name = "system:serviceaccount:team:default"
    where = "/apis/rbac.authorization.k8s.io/v1/namespaces/team/rolebindings"
    binding = {
        "metadata": {"name": "robot"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "team"}],
    }
    assert api.send("POST", where, binding).status == 201
    assert owner(as_user(api, name, "POST", BATCH, job("robots", "ann"))) == name


def test_an_object_from_before_owners_were_kept_gets_one_only_from_who_may_set_it(api: Api) -> None:
    as_user(api, "ann", "POST", BATCH, job("old"))
    store, key = api.parts.cluster.store, "batch/jobs/team/old"
    stored = store.latest(key)
    assert stored is not None
    bare = stored.copy()
    del bare["metadata"]["annotations"]
    api.parts.cluster.put_quietly(key, bare)
    patch = {"metadata": {"annotations": {OWNER: "bob", "other": "1"}}}
    assert owner(as_user(api, "ann", "PATCH", f"{BATCH}/old", patch, MERGE)) == ""
    assert owner(as_user(api, "deputy", "PATCH", f"{BATCH}/old", patch, MERGE)) == "bob"
    patch["metadata"]["annotations"][OWNER] = "ann"
    assert owner(as_user(api, "deputy", "PATCH", f"{BATCH}/old", patch, MERGE)) == "bob", "once set, it stays"


def test_only_workloads_have_owners(api: Api) -> None:
    body = {"metadata": {"name": "settings", "annotations": {OWNER: "bob"}}}
    made = as_user(api, "ann", "POST", f"{TEAM}/configmaps", body)
    assert (owner(made), made.warnings) == ("bob", [])
    kinds = {each.kind for each in OWNED}
    assert {"Job", "Pod", "CronJob", "Deployment", "ReplicaSet", "StatefulSet", "Workload", "Notebook"} <= kinds
    assert {"RayCluster", "RayJob", "RayService", "JobSet", "PyTorchJob", "MPIJob", "TrainJob"} <= kinds
    assert {"LeaderWorkerSet", "AppWrapper", "InferenceService", "DaemonSet", "ReplicationController"} <= kinds


def test_a_dry_run_says_whose_it_would_be(api: Api) -> None:
    made = as_user(api, "ann", "POST", BATCH, job("tried", "bob"), dryRun="All")
    assert owner(made) == "ann"
    assert api.send("GET", f"{BATCH}/tried").status == 404
