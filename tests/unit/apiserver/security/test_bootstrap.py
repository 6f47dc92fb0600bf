"""The roles every cluster starts with let people do what their names say."""

import pytest
from tests.unit.apiserver.security.conftest import asked, binding, user

from gpuaas.apiserver.security import bootstrap
from gpuaas.apiserver.security.rbac import Rbac


@pytest.fixture(scope="module")
def rbac() -> Rbac:
    rbac = Rbac()
    for plural, obj in bootstrap.objects():
        rbac.put(plural, obj)
    for role in ("admin", "edit", "view", "kueue-batch-admin-role", "kueue-batch-user-role"):
        rbac.put("rolebindings", binding(role, "ClusterRole", role, [f"User:{role}"], namespace="team"))
    return rbac


@pytest.mark.parametrize(
    ("what", "admin", "edit", "view", "batch_admin", "batch_user"),
    [
        ("get pods", True, True, True, False, False),
        ("create pods", True, True, False, False, False),
        ("get pods/log", True, True, True, False, False),
        ("create pods/exec", True, True, False, False, False),
        ("get secrets", True, True, False, False, False),
        ("create deployments.apps", True, True, False, False, False),
        ("patch deployments/scale.apps", True, True, False, False, False),
        ("create rolebindings.rbac.authorization.k8s.io", True, False, False, False, False),
        ("create serviceaccounts/token", True, True, False, False, False),
        ("create resourcequotas", False, False, False, False, False),
        ("get nodes", False, False, False, False, False),
        ("create jobs.batch", True, True, False, True, True),
        ("list jobs.batch", True, True, True, True, True),
        ("list localqueues.kueue", True, True, True, True, True),
        ("create localqueues.kueue", False, False, False, True, False),
        ("get workloads.kueue", True, True, True, True, True),
        ("delete workloads.kueue", False, False, False, True, False),
        ("list clusterqueues.kueue", True, False, False, True, False),
        ("update clusterqueues.kueue", False, False, False, True, False),
        ("create rayclusters.ray.io", False, False, False, True, True),
        ("get rayclusters.ray.io", True, True, True, True, True),
        ("get localqueues/pendingworkloads.visibility.kueue", True, True, True, True, True),
        ("get clusterqueues/pendingworkloads.visibility.kueue", True, True, True, True, False),
    ],
)
def test_who_may_do_what_in_a_namespace(
    rbac: Rbac, what: str, admin: bool, edit: bool, view: bool, batch_admin: bool, batch_user: bool
) -> None:
    question = asked(what.replace(".kueue", ".kueue.x-k8s.io"), "team", "x")
    roles = ("admin", "edit", "view", "kueue-batch-admin-role", "kueue-batch-user-role")
    allowed = [rbac.authorize(user(role), question).allowed for role in roles]
    assert allowed == [admin, edit, view, batch_admin, batch_user]


@pytest.mark.parametrize(
    ("what", "allowed"),
    [
        ("get /version", True),
        ("get /apis/batch/v1", True),
        ("get /openapi/v3", True),
        ("get /metrics", False),
        ("create selfsubjectaccessreviews.authorization.k8s.io", True),
        ("create selfsubjectrulesreviews.authorization.k8s.io", True),
        ("create selfsubjectreviews.authentication.k8s.io", True),
        ("create subjectaccessreviews.authorization.k8s.io", False),
        ("list namespaces", False),
    ],
)
def test_what_everybody_who_has_a_name_may_do(rbac: Rbac, what: str, allowed: bool) -> None:
    assert rbac.authorize(user("somebody"), asked(what)).allowed is allowed


def test_the_masters_binding_gives_everything_to_its_group(rbac: Rbac) -> None:
    grants, errors = rbac.grants(user("root", "system:masters"), "")
    assert not errors
    assert {str(grant.rule) for grant in grants} >= {
        '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}',
        '{NonResourceURLs:["*"], Verbs:["*"]}',
    }


def test_every_binding_names_a_role_that_is_there_and_names_are_unique() -> None:
    made = list(bootstrap.objects())
    names = [(plural, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]) for plural, obj in made]
    assert len(names) == len(set(names))
    for plural, obj in made:
        if plural == "clusterrolebindings":
            assert ("clusterroles", "", obj["roleRef"]["name"]) in names
        if plural == "rolebindings":
            assert ("roles", obj["metadata"]["namespace"], obj["roleRef"]["name"]) in names


def test_a_role_somebody_cut_gets_back_what_it_lacks_and_keeps_what_was_added() -> None:
    wanted = next(role for role in bootstrap.cluster_roles() if role["metadata"]["name"] == "system:basic-user")
    assert bootstrap.reconciled(wanted, wanted) is None
    added = {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}
    stored = {**wanted, "rules": [wanted["rules"][1], added]}
    mended = bootstrap.reconciled(stored, wanted)
    assert mended is not None
    assert mended["rules"][:2] == [wanted["rules"][1], added]
    assert bootstrap.reconciled(mended, wanted) is None
    alone = {**stored, "metadata": {**stored["metadata"], "annotations": {bootstrap.AUTOUPDATE: "false"}}}
    assert bootstrap.reconciled(alone, wanted) is None


def test_a_binding_gets_back_its_subjects_and_an_aggregation_its_selectors() -> None:
    bound = next(iter(bootstrap.cluster_role_bindings()))
    mended = bootstrap.reconciled({**bound, "subjects": []}, bound)
    assert mended is not None
    assert mended["subjects"] == bound["subjects"]
    admin = next(role for role in bootstrap.cluster_roles() if role["metadata"]["name"] == "admin")
    without = {**admin, "aggregationRule": {"clusterRoleSelectors": []}, "rules": [{"verbs": ["get"]}]}
    mended = bootstrap.reconciled(without, admin)
    assert mended is not None
    assert mended["aggregationRule"] == admin["aggregationRule"]
    assert mended["rules"] == [{"verbs": ["get"]}]
