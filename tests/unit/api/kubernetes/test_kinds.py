"""The names people type: plurals, short names, categories, subresources."""

import pytest

from gpuaas.api.kubernetes import builtin_kinds

_BY_NAME = {(kind.group, kind.version, kind.plural): kind for kind in builtin_kinds()}


def test_a_plural_names_one_kind_of_its_group() -> None:
    assert len(_BY_NAME) == len(builtin_kinds()) == 68


@pytest.mark.parametrize(
    ("short", "plurals"),
    [
        ("po", ["pods"]),
        ("deploy", ["deployments"]),
        ("cm", ["configmaps"]),
        ("pvc", ["persistentvolumeclaims"]),
        ("crd", ["customresourcedefinitions"]),
        ("ev", ["events", "events"]),
        ("hpa", ["horizontalpodautoscalers", "horizontalpodautoscalers"]),
        ("pc", ["priorityclasses"]),
        ("jobs", []),
    ],
)
def test_short_names(short: str, plurals: list[str]) -> None:
    assert [kind.plural for kind in builtin_kinds() if short in kind.short_names] == plurals


def test_what_kubectl_get_all_shows() -> None:
    shown = [kind.plural for kind in builtin_kinds() if "all" in kind.categories]
    assert sorted(set(shown)) == [
        "cronjobs",
        "daemonsets",
        "deployments",
        "horizontalpodautoscalers",
        "jobs",
        "pods",
        "replicasets",
        "replicationcontrollers",
        "services",
        "statefulsets",
    ]


@pytest.mark.parametrize(
    ("plural", "group", "subresources"),
    [
        ("pods", "", {"attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy", "resize"}),
        ("serviceaccounts", "", {"token"}),
        ("namespaces", "", {"finalize"}),
        ("certificatesigningrequests", "certificates.k8s.io", {"approval"}),
        ("jobs", "batch", set()),
    ],
)  # fmt: skip
def test_subresources(plural: str, group: str, subresources: set[str]) -> None:
    assert set(_BY_NAME[group, "v1", plural].subresources) == subresources


def test_questions_are_never_stored() -> None:
    virtual = {kind.kind for kind in builtin_kinds() if kind.virtual}
    assert virtual == {
        "Binding",
        "LocalSubjectAccessReview",
        "SelfSubjectAccessReview",
        "SelfSubjectReview",
        "SelfSubjectRulesReview",
        "SubjectAccessReview",
        "TokenReview",
    }


def test_kinds_that_count_generations() -> None:
    counted = {kind.kind for kind in builtin_kinds() if kind.behaviour.generation and not kind.virtual}
    assert {"Pod", "Job", "Deployment", "CustomResourceDefinition", "PriorityClass", "NetworkPolicy"} <= counted
    assert not counted & {"ConfigMap", "Secret", "Service", "Node", "Namespace", "Lease", "Role", "ResourceQuota"}
