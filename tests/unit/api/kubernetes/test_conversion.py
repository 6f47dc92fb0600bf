"""Events keep what they say in both of their shapes."""

from gpuaas.api.kubernetes.conversion import convert_event

CORE = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "name": "p"},
    "message": "it began",
    "reportingComponent": "",
    "reportingInstance": "",
}


def test_an_event_without_a_reporter_does_not_mention_one_in_the_newer_group() -> None:
    newer = convert_event(dict(CORE), "v1")
    assert newer == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p"},
        "note": "it began",
    }


def test_there_and_back_is_the_same_event() -> None:
    reported = {**CORE, "reportingComponent": "kubelet", "reportingInstance": "n1"}
    for event in (CORE, reported):
        assert convert_event(convert_event(dict(event), "v1"), "v1") == event
