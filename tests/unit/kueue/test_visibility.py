"""What the visibility API shows of a waiting workload."""

from gpuaas.kueue.visibility import pending_entry


def test_owners_are_named_without_what_they_mean_to_the_collector() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}
    metadata = {
        "name": "job-j-1",
        "namespace": "team",
        "uid": "w",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    spec = {"queueName": "lq", "priority": 7}
    assert pending_entry({"metadata": metadata, "spec": spec}, 3, 1) == {
        "metadata": {
            "name": "job-j-1",
            "namespace": "team",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [owner],
        },
        "priority": 7,
        "localQueueName": "lq",
        "positionInClusterQueue": 3,
        "positionInLocalQueue": 1,
    }
