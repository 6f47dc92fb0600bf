"""Groups kept as objects count where people authenticate, from the moment they are written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.unit.apiserver.conftest import Api

from gpuaas.apiserver.security.groups import Groups
from gpuaas.apiserver.security.identity import MASTERS, User
from gpuaas.base.ids import SeededIds

PATH = "/apis/user.openshift.io/v1/groups"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def group(name: str, *users: Any) -> dict[str, Any]:
    return {"apiVersion": "user.openshift.io/v1", "kind": "Group", "metadata": {"name": name}, "users": [*users]}


def groups_of(made: Groups, name: str, *own: str) -> tuple[str, ...]:
    return made.joined(User(name, groups=own)).groups


def test_a_user_is_in_the_groups_that_name_them() -> None:
    made = Groups()
    for each in (
        group("ml", "ann", "bob", "ann"),
        group("ops", "bob"),
        group("empty"),
        {**group("null"), "users": None},
    ):
        made.put(each)
    assert groups_of(made, "ann", "own") == ("own", "ml")
    assert groups_of(made, "bob") == ("ml", "ops")
    assert groups_of(made, "eve", "own") == ("own",)
    made.put(group("ml", "eve"))
    made.remove("ops")
    assert [groups_of(made, name) for name in ("ann", "bob", "eve")] == [(), (), ("ml",)]


@pytest.mark.parametrize("name", ["system:serviceaccount:ns:a", "system:node:n1", "system:gpuaas:x"])
def test_only_people_join(name: str) -> None:
    made = Groups()
    made.put(group("ml", name))
    assert groups_of(made, name, "own") == ("own",)


def test_no_group_object_makes_a_member_of_a_group_of_the_server() -> None:
    made = Groups()
    made.put(group(MASTERS, "ann"))
    assert groups_of(made, "ann") == ()


def test_a_group_that_cannot_be_read_has_no_members_and_stops_nothing(tmp_path: Path) -> None:
    api = Api(tmp_path)
    try:
        key = "user.openshift.io/groups//broken"
        for users in (["ann"], ["ann", 7], 7):
            api.parts.cluster.put_quietly(key, {**group("broken"), "users": users})
            api.run(asyncio.sleep(0))
            api.send("POST", PATH, group(f"after-{len(str(users))}", "ann"))
        found = groups_of(api.parts.access.groups, "ann")
        assert "broken" not in found
        assert len(found) == 3
        late = Groups()
        late.follow(api.parts.cluster.store)
        assert groups_of(late, "ann") == found
    finally:
        api.close()


def test_a_binding_to_a_group_object_holds_as_soon_as_it_is_written_and_no_longer(tmp_path: Path) -> None:
    api = Api(tmp_path)
    try:
        _, token = api.trust.users.add("ann", SeededIds(3), groups=["own"])
        headers = {"authorization": f"Bearer {token}"}
        binding = {
            "metadata": {"name": "ml"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "ml"}],
        }
        assert api.send("POST", f"{RBAC}/clusterrolebindings", binding).status == 201

        def may() -> bool:
            return api.send("GET", "/api/v1/namespaces/default/pods", headers=headers).status == 200

        assert not may()
        assert api.send("POST", PATH, group("ml", "ann")).status == 201
        assert may()
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        who = api.send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review, headers=headers)
        assert {"own", "ml"} <= set(who.body["status"]["userInfo"]["groups"])
        merge = "application/merge-patch+json"
        assert api.send("PATCH", f"{PATH}/ml", {"users": ["bob"]}, merge).status == 200
        assert not may()
        assert api.send("PATCH", f"{PATH}/ml", {"users": ["ann"]}, merge).status == 200
        assert may()
        assert api.send("DELETE", f"{PATH}/ml").status == 200
        assert not may()
        assert api.send("POST", PATH, group("mine", "ann"), headers=headers).status == 403
    finally:
        api.close()
