"""What ending a namespace promises: everything in it goes first, and who looks is told what is left."""

from gpuaas.client.protocol import Resource
from gpuaas.client.resources import CONFIG_MAPS, NAMESPACES, PODS, SECRETS, SERVICE_ACCOUNTS
from gpuaas.controllers.namespaces import NamespaceController, Remains, decide_conditions
from gpuaas.controllers.root_ca import RootCaController
from gpuaas.controllers.service_accounts import DefaultServiceAccountController
from gpuaas.testing.objects import config_map, namespace, pod, secret
from gpuaas.testing.time import scenario, stage

NOW = "2026-01-01T00:00:00Z"


def _said(conditions: list[dict[str, str]]) -> dict[str, str]:
    return {one["type"]: f"{one['status']} {one['reason']}: {one['message']}" for one in conditions}


def test_a_clean_pass_says_that_all_went_well() -> None:
    assert _said(decide_conditions((), Remains(), NOW)) == {
        "NamespaceDeletionDiscoveryFailure": "False ResourcesDiscovered: All resources successfully discovered",
        "NamespaceDeletionGroupVersionParsingFailure": (
            "False ParsedGroupVersions: All legacy kube types successfully parsed"
        ),
        "NamespaceDeletionContentFailure": (
            "False ContentDeleted: All content successfully deleted, may be waiting on finalization"
        ),
        "NamespaceContentRemaining": "False ContentRemoved: All content successfully removed",
        "NamespaceFinalizersRemaining": "False ContentHasNoFinalizers: All content-preserving finalizers finished",
    }


def test_what_remains_is_named_with_counts_and_a_condition_keeps_its_time_while_it_says_the_same() -> None:
    remains = Remains(failures=["b broke", "a broke"])
    remains.by_resource.update({"pods.": 2, "jobs.batch": 1})
    remains.by_finalizer.update({"x/y": 3})
    first = decide_conditions((), remains, NOW)
    said = _said(first)
    assert said["NamespaceContentRemaining"] == (
        "True SomeResourcesRemain: Some resources are remaining: jobs.batch has 1 resource instances, pods. has 2 resource instances"
    )
    assert said["NamespaceFinalizersRemaining"] == (
        "True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: x/y in 3 resource instances"
    )
    assert said["NamespaceDeletionContentFailure"] == (
        "True ContentDeletionFailed: Failed to delete all resource types, 2 remaining: a broke, b broke"
    )
    later = decide_conditions(first, Remains(), "2026-01-01T00:01:00Z")
    moments = {one["type"]: one["lastTransitionTime"] for one in later}
    assert moments["NamespaceContentRemaining"] == "2026-01-01T00:01:00Z"
    assert moments["NamespaceDeletionDiscoveryFailure"] == NOW


@scenario
async def test_deleting_a_namespace_deletes_all_it_contains_and_then_itself() -> None:
    widgets = Resource("example.com", "v1", "widgets", True, "Widget")
    async with stage(NamespaceController) as on:
        on.cluster.serve(widgets)
        on.cluster.put(NAMESPACES, namespace("team"))
        on.cluster.put(CONFIG_MAPS, config_map("c", "team"))
        on.cluster.put(SECRETS, secret("s", "team"))
        on.cluster.put(widgets, {"metadata": {"name": "w", "namespace": "team"}})
        on.cluster.put(CONFIG_MAPS, config_map("c", "other"))
        await on.settle()
        assert on.cluster.exists(CONFIG_MAPS, "c", "team"), "a living namespace keeps its content"
        on.cluster.remove(NAMESPACES, "team")
        await on.settle()
        assert not on.cluster.exists(NAMESPACES, "team")
        assert not on.cluster.all(CONFIG_MAPS, "team") + on.cluster.all(SECRETS, "team") + on.cluster.all(widgets)
        assert on.cluster.exists(CONFIG_MAPS, "c", "other")


@scenario
async def test_a_finalizer_inside_holds_the_namespace_and_is_named() -> None:
    async with stage(NamespaceController) as on:
        on.cluster.put(NAMESPACES, namespace("team"))
        on.cluster.put(CONFIG_MAPS, config_map("held", "team", finalizers=["example.com/hold"]))
        on.cluster.remove(NAMESPACES, "team")
        await on.advance(60)
        status = on.cluster.read(NAMESPACES, "team")["status"]
        assert status["phase"] == "Terminating"
        assert _said(status["conditions"])["NamespaceFinalizersRemaining"].endswith(
            "example.com/hold in 1 resource instances"
        )
        on.cluster.put(CONFIG_MAPS, config_map("held", "team"))
        await on.advance(60)
        assert not on.cluster.exists(NAMESPACES, "team")


@scenario
async def test_pods_go_first_and_the_rest_waits_for_them() -> None:
    async with stage(NamespaceController) as on:
        on.cluster.put(NAMESPACES, namespace("team"))
        running = pod("p", "team", node="n", phase="Running")
        running["spec"]["terminationGracePeriodSeconds"] = 30
        on.cluster.put(PODS, running)
        on.cluster.put(SECRETS, secret("needed", "team"))
        on.cluster.remove(NAMESPACES, "team")
        await on.settle()
        assert on.cluster.read(PODS, "p", "team")["metadata"]["deletionTimestamp"]
        assert on.cluster.exists(SECRETS, "needed", "team")
        await on.cluster.delete(PODS, "p", "team", grace=0)  # the kubelet's last word
        await on.advance(30)
        assert not on.cluster.exists(NAMESPACES, "team")


@scenario
async def test_a_namespace_with_another_finalizer_of_its_own_only_loses_ours() -> None:
    async with stage(NamespaceController) as on:
        held = {**namespace("team"), "spec": {"finalizers": ["kubernetes", "example.com/own"]}}
        on.cluster.put(NAMESPACES, held)
        on.cluster.remove(NAMESPACES, "team")
        await on.advance(60)
        assert on.cluster.read(NAMESPACES, "team")["spec"]["finalizers"] == ["example.com/own"]


@scenario
async def test_each_namespace_gets_its_default_account_and_root_certificate_and_gets_them_back() -> None:
    async with stage(DefaultServiceAccountController, RootCaController, root_ca="PEM") as on:
        on.cluster.put(NAMESPACES, namespace("team"))
        await on.settle()
        assert on.cluster.exists(SERVICE_ACCOUNTS, "default", "team")
        assert on.cluster.read(CONFIG_MAPS, "kube-root-ca.crt", "team")["data"] == {"ca.crt": "PEM"}
        on.cluster.remove(SERVICE_ACCOUNTS, "default", "team")
        on.cluster.put(CONFIG_MAPS, config_map("kube-root-ca.crt", "team", data={"ca.crt": "forged", "more": "x"}))
        await on.settle()
        assert on.cluster.exists(SERVICE_ACCOUNTS, "default", "team")
        assert on.cluster.read(CONFIG_MAPS, "kube-root-ca.crt", "team")["data"] == {"ca.crt": "PEM"}


@scenario
async def test_an_ending_namespace_gets_nothing_new() -> None:
    async with stage(DefaultServiceAccountController, RootCaController, root_ca="PEM") as on:
        on.cluster.put(NAMESPACES, namespace("team"))
        await on.settle()
        on.cluster.remove(NAMESPACES, "team")
        on.cluster.remove(SERVICE_ACCOUNTS, "default", "team")
        on.cluster.remove(CONFIG_MAPS, "kube-root-ca.crt", "team")
        await on.settle()
        assert not on.cluster.exists(SERVICE_ACCOUNTS, "default", "team")
        assert not on.cluster.exists(CONFIG_MAPS, "kube-root-ca.crt", "team")
