"""How many entries a pod's spec may have, wherever a kind keeps it; what was too long before may stay."""

from typing import Any

import pytest

from gpuaas.api.kubernetes.rules.pod_budgets import OF_CONTAINER, OF_SPEC, budget_errors

CONTAINER: dict[str, Any] = {"name": "a", "image": "x"}


def _pod(**spec: Any) -> dict[str, Any]:
    return {"kind": "Pod", "spec": {"containers": [CONTAINER], **spec}}


def _said(obj: Any, old: Any = None) -> list[str]:
    return [str(error) for error in budget_errors(obj, old)]


@pytest.mark.parametrize(("name", "limit"), OF_SPEC.items())
def test_each_list_of_a_spec_has_its_limit(name: str, limit: int) -> None:
    def some(number: int) -> Any:
        if name == "nodeSelector":
            return {f"k{each}": "v" for each in range(number)}
        return [{"name": f"n{each}"} for each in range(number)]

    assert _said(_pod(**{name: some(limit)})) == []
    assert _said(_pod(**{name: some(limit + 1)})) == [
        f"spec.{name}: Too many: {limit + 1}: must have at most {limit} items"
    ]


@pytest.mark.parametrize(("name", "limit"), OF_CONTAINER.items())
def test_each_list_of_a_container_has_its_limit(name: str, limit: int) -> None:
    container = {**CONTAINER, name: [{"name": f"n{each}"} for each in range(limit + 1)]}
    where = f"spec.initContainers[0].{name}"
    assert _said(_pod(initContainers=[container])) == [
        f"{where}: Too many: {limit + 1}: must have at most {limit} items"
    ]


_REQUIRED, _PREFERRED = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
_TERMS: list[dict[str, Any]] = [{"topologyKey": "a"}] * 200
_EXPRESSIONS = {"matchExpressions": [{"key": "a", "operator": "Exists"}] * 200}
_VALUES = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["v"] * 9000}]}


@pytest.mark.parametrize(
    ("affinity", "where"),
    [
        ({"podAffinity": {_REQUIRED: _TERMS}}, f"podAffinity.{_REQUIRED}"),
        ({"podAntiAffinity": {_PREFERRED: _TERMS}}, f"podAntiAffinity.{_PREFERRED}"),
        ({"nodeAffinity": {_PREFERRED: _TERMS}}, f"nodeAffinity.{_PREFERRED}"),
        ({"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": _TERMS}}}, f"nodeAffinity.{_REQUIRED}.nodeSelectorTerms"),
        (
            {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [_EXPRESSIONS]}}},
            f"nodeAffinity.{_REQUIRED}.nodeSelectorTerms[0].matchExpressions",
        ),
        (
            {"nodeAffinity": {_PREFERRED: [{"preference": _VALUES}]}},
            f"nodeAffinity.{_PREFERRED}[0].preference.matchExpressions[0].values",
        ),
        (
            {"podAffinity": {_PREFERRED: [{"podAffinityTerm": {"labelSelector": _EXPRESSIONS}}]}},
            f"podAffinity.{_PREFERRED}[0].podAffinityTerm.labelSelector.matchExpressions",
        ),
    ],
)
def test_each_list_of_an_affinity_has_its_limit(affinity: Any, where: str) -> None:
    (said,) = _said(_pod(affinity=affinity))
    assert said.startswith(f"spec.affinity.{where}: Too many: ")


def test_templates_are_found_wherever_they_are() -> None:
    spec = _pod(tolerations=[{"key": "a"}] * 300)["spec"]
    job_set = {"spec": {"replicatedJobs": [{}, {"template": {"spec": {"template": {"spec": spec}}}}]}}
    assert _said(job_set) == [
        "spec.replicatedJobs[1].template.spec.template.spec.tolerations: Too many: 300: must have at most 256 items"
    ]
    assert _said({"kind": "ConfigMap", "data": {"tolerations": "x"}}) == []


def test_what_was_too_long_before_may_stay_or_shrink_but_not_grow() -> None:
    old = _pod(tolerations=[{"key": "a"}] * 300)
    assert _said(_pod(tolerations=[{"key": "a"}] * 300), old) == []
    assert _said(_pod(tolerations=[{"key": "a"}] * 290), old) == []
    assert len(_said(_pod(tolerations=[{"key": "a"}] * 301), old)) == 1


@pytest.mark.parametrize(
    "spec", [{"containers": "x"}, {"containers": [1]}, {"containers": [], "affinity": [1]}, None, [1]]
)
def test_what_has_not_the_shape_of_a_spec_is_left_to_other_rules(spec: Any) -> None:
    assert _said({"spec": spec}) == []
