"""What a start adds to pod templates and a stop takes back, and when a job and its workload speak of the same pods."""

from typing import Any

import pytest

from gpuaas.kueue.integrations import podsets
from gpuaas.kueue.integrations.podsets import CannotStart, FlavorMissing, Info
from gpuaas.kueue.integrations.topology import errors, group_errors, request

Object = dict[str, Any]

FLAVORS = {
    "a100": {"spec": {"nodeLabels": {"card": "a100"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}},
    "cpu": {"spec": {"nodeLabels": {"pool": "cpu"}}},
}


def workload(template: Object, *, checks: Any = (), **assignment: Any) -> Object:
    given = {"name": "main", "flavors": {"nvidia.com/gpu": "a100", "cpu": "cpu"}, "count": 2, **assignment}
    return {
        "metadata": {"name": "w", "namespace": "n"},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 2, "template": template}]},
        "status": {
            "admission": {"clusterQueue": "team", "podSetAssignments": [given]},
            "admissionChecks": list(checks),
            "conditions": [{"type": "QuotaReserved", "status": "True"}],
        },
    }


def test_a_start_adds_what_all_flavors_say_and_a_stop_takes_it_back() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [], "nodeSelector": {"zone": "1"}}}
    found = workload(template)
    (info,) = podsets.from_admission(found, FLAVORS.get)
    started = podsets.injected(template, info)
    assert started["spec"]["nodeSelector"] == {"zone": "1", "card": "a100", "pool": "cpu"}
    assert started["spec"]["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert started["metadata"] == {
        "labels": {
            "a": "b",
            "kueue.x-k8s.io/podset": "main",
            "kueue.x-k8s.io/local-queue-name": "lq",
            "kueue.x-k8s.io/cluster-queue-name": "team",
        },
        "annotations": {"kueue.x-k8s.io/workload": "w"},
    }
    assert podsets.restored(started, podsets.originals(found)[0]) == template


def test_a_place_in_a_topology_keeps_the_pods_gated_until_it_is_theirs() -> None:
    (info,) = podsets.from_admission(workload({"spec": {}}, topologyAssignment={"levels": ["h"]}), FLAVORS.get)
    assert info.gates == [{"name": "kueue.x-k8s.io/topology"}]
    assert info.annotations["kueue.x-k8s.io/podset-unconstrained-topology"] == "true"


def test_checks_add_to_the_pods() -> None:
    update = {"name": "main", "nodeSelector": {"rack": "7"}, "labels": {"x": "y"}, "tolerations": [{"key": "k"}]}
    (info,) = podsets.from_admission(
        workload({"spec": {}}, checks=[{"name": "c", "podSetUpdates": [update]}]), FLAVORS.get
    )
    assert info.node_selector == {"card": "a100", "pool": "cpu", "rack": "7"}
    assert info.labels["x"] == "y"
    assert {"key": "k"} in info.tolerations


def test_what_contradicts_cannot_start() -> None:
    (info,) = podsets.from_admission(workload({"spec": {}}), FLAVORS.get)
    with pytest.raises(CannotStart) as raised:
        podsets.injected({"spec": {"nodeSelector": {"card": "l4"}}}, info)
    assert str(raised.value) == (
        "invalid admission check PodSetUpdate: conflict for nodeSelector: conflict for key=card, value1=l4, value2=a100"
    )
    clash = [{"name": "c", "podSetUpdates": [{"name": "main", "nodeSelector": {"card": "l4"}}]}]
    with pytest.raises(CannotStart, match='in admission check "c": invalid admission check PodSetUpdate'):
        podsets.from_admission(workload({"spec": {}}, checks=clash), FLAVORS.get)
    with pytest.raises(CannotStart, match="expecting 2 podset, got 1"):
        podsets.expect([Info("main", 1)], 2)


def test_a_flavor_that_is_gone_is_waited_for() -> None:
    with pytest.raises(FlavorMissing, match='"h100" not found'):
        podsets.from_admission(workload({"spec": {}}, flavors={"cpu": "h100"}), FLAVORS.get)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"containers": [{"name": "a"}]}, {"containers": [{"name": "a", "env": []}]}, True),
        (
            {"containers": [{"resources": {"requests": {"cpu": 1}}}]},
            {"containers": [{"resources": {"requests": {"cpu": "1000m"}}}]},
            True,
        ),
        (
            {"containers": [{"resources": {"requests": {"cpu": "1"}}}]},
            {"containers": [{"resources": {"requests": {"cpu": "2"}}}]},
            False,
        ),
        ({"containers": [{"name": "a"}]}, {"containers": [{"name": "a"}, {"name": "b"}]}, False),
        ({"initContainers": [{"name": "a"}]}, {}, False),
        ({"nodeSelector": {"a": "b"}}, {}, True),
        ({"tolerations": [{"key": "a"}]}, {}, False),
    ],
)
def test_only_what_is_counted_makes_pod_sets_differ(one: Object, other: Object, same: bool) -> None:
    sets = [[{"name": "main", "count": 1, "template": {"spec": spec}}] for spec in (one, other)]
    assert podsets.same(*sets) is same
    assert podsets.same([{**sets[0][0], "count": 2}], sets[0]) is False


def test_variables_set_twice_count_once() -> None:
    container = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"}]}
    (made,) = podsets.sanitized([{"template": {"spec": {"containers": [container]}}}])
    assert made["template"]["spec"]["containers"][0]["env"] == [
        {"name": "A", "value": "3"},
        {"name": "B", "value": "2"},
    ]


# Asking for a place.

REQUIRED, PREFERRED = "kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-preferred-topology"
UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"
SLICE, SIZE = "kueue.x-k8s.io/podset-slice-required-topology", "kueue.x-k8s.io/podset-slice-size"
LAYERS, PAIR = "kueue.x-k8s.io/podset-slice-required-topology-constraints", "kueue.x-k8s.io/podset-group-name"


@pytest.mark.parametrize(
    ("notes", "asked"),
    [
        ({}, None),
        ({REQUIRED: "rack"}, {"required": "rack"}),
        ({PREFERRED: "rack", PAIR: "g"}, {"preferred": "rack", "podSetGroupName": "g"}),
        ({UNCONSTRAINED: "true"}, {"unconstrained": True}),
        ({SLICE: "rack", SIZE: "2"}, {"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2}),
        (
            {LAYERS: '[{"topology":"rack","size":4}]'},
            {"podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 4}]},
        ),
    ],
)
def test_annotations_ask_for_a_place(notes: dict[str, str], asked: Object | None) -> None:
    assert request({"annotations": notes}) == asked


def test_an_index_alone_is_a_request_too() -> None:
    assert request(None, index_label="i") == {"podIndexLabel": "i"}


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        ({REQUIRED: "a", PREFERRED: "b"}, "must not contain more than one topology annotation"),
        ({REQUIRED: "not a name"}, f"m.annotations[{REQUIRED}]: Invalid value"),
        ({UNCONSTRAINED: "maybe"}, "must be a boolean value"),
        ({SLICE: "rack"}, f"m.annotations[{SIZE}]: Required value: must be set when '{SLICE}' is specified"),
        ({SIZE: "2"}, f"may not be set when '{SLICE}' is not specified"),
        ({SLICE: "rack", SIZE: "x"}, "must be a numeric value"),
        ({SLICE: "rack", SIZE: "0"}, "must be greater than or equal to 1"),
        ({SLICE: "rack", SIZE: "9"}, "must not be greater than pod set count 4"),
        ({PAIR: "g"}, "may not be set when neither"),
        ({PAIR: "7", REQUIRED: "rack"}, "must not be a number"),
        ({LAYERS: "nonsense"}, "must be a valid JSON array"),
        ({LAYERS: "[]"}, "topology constraints must contain between 1 and 3 entries"),
        (
            {LAYERS: '[{"topology":"a","size":3},{"topology":"b","size":2}]'},
            "must evenly divide the parent layer size 3",
        ),
        ({LAYERS: '[{"topology":"a","size":2},{"topology":"a","size":1}]'}, "a (also at index 0)"),
        ({LAYERS: '[{"topology":"a","size":8}]'}, "must not be greater than pod set count 4"),
    ],
)
def test_a_place_wrongly_asked_for_is_refused(notes: dict[str, str], words: str) -> None:
    assert any(words in str(error) for error in errors("m", {"annotations": notes}, 4))


def test_a_place_rightly_asked_for_is_not() -> None:
    assert errors("m", {"annotations": {REQUIRED: "rack", SLICE: "host", SIZE: "2"}}, 4) == []


def test_pod_sets_placed_together_come_in_pairs_with_one_leader() -> None:
    def member(name: str, count: int, level: str = "rack") -> Object:
        return {"name": name, "count": count, "topologyRequest": {"required": level, "podSetGroupName": "g"}}

    paths = {name: f"p.{name}" for name in "abc"}
    assert group_errors([member("a", 1), member("b", 5)], paths) == []
    assert len(group_errors([member("a", 1), member("b", 1), member("c", 1)], paths)) == 3
    assert "at least one pod set has only 1 replica" in str(group_errors([member("a", 2), member("b", 5)], paths)[0])
    assert "consistent with" in str(group_errors([member("a", 1), member("b", 5, "zone")], paths)[0])


def test_a_workload_spells_its_pods_as_kubernetes_does() -> None:
    odd = {"name": "c", "resources": {"requests": {"cpu": 2, "memory": "1024Mi"}, "limits": {"x.com/y": "nonsense"}}}
    made = podsets.spelled({"name": "main", "count": 2, "template": {"spec": {"containers": [odd, {"name": "d"}]}}})
    assert made["template"]["metadata"] == {}
    first, second = made["template"]["spec"]["containers"]
    assert first["resources"] == {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"x.com/y": "nonsense"}}
    assert second == {"name": "d"}
    assert odd["resources"]["requests"]["cpu"] == 2, "the job's own words stay"


def test_a_workload_says_nothing_of_labels_and_notes_a_template_does_not_have() -> None:
    template = {"metadata": {"annotations": {}, "labels": None, "name": "kept"}, "spec": {"containers": []}}
    assert podsets.spelled({"name": "main", "template": template})["template"]["metadata"] == {"name": "kept"}
