"""Each integration has a row that says how its jobs are dispatched, or is named as one that has none."""

from __future__ import annotations

from gpuaas.kueue.integrations.registry import FRAMEWORKS
from gpuaas.kueue.multikueue.adapters import ADAPTERS, WITHOUT, adapter_for
from gpuaas.kueue.multikueue.names import CONTROLLER


def test_every_integration_has_an_adapter_or_is_named() -> None:
    assert set(ADAPTERS) | WITHOUT == FRAMEWORKS
    assert not set(ADAPTERS) & WITHOUT


def test_the_manager_is_found_set_and_removed_where_the_kind_keeps_it() -> None:
    for adapter in ADAPTERS.values():
        job = {"metadata": {"name": "x"}, "spec": {"other": 1}}
        if not adapter.managed_by:
            assert adapter.undelegated(job) == ""
            continue
        assert adapter.undelegated(job) == f'Expecting {".".join(adapter.managed_by)} to be "{CONTROLLER}" not ""'
        managed = adapter.with_manager(job, CONTROLLER)
        assert adapter.manager_of(managed) == CONTROLLER
        assert adapter.undelegated(managed) == ""
        assert adapter.manager_of(adapter.with_manager(managed, "")) == ""
        assert job == {"metadata": {"name": "x"}, "spec": {"other": 1}}, "a job is never changed in place"


def test_mpi_jobs_keep_their_manager_in_the_run_policy() -> None:
    adapter = adapter_for("kubeflow.org", "MPIJob")
    assert adapter is not None
    assert adapter.managed_by == ("spec", "runPolicy", "managedBy")
