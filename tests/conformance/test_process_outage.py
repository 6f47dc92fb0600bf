"""A few kills in the middle of jobs that are processes; `python -m tests.conformance.process_outage` does hundreds."""

from pathlib import Path

from tests.conformance.process_outage import run


def test_kill_9_of_server_supervisors_and_shells_loses_no_job_and_runs_none_beside_itself(tmp_path: Path) -> None:
    outcome = run(tmp_path / "run", count=20, kills=3, seed=1)
    assert outcome.kills == 3
    assert outcome.hurt > 0
    assert outcome.wrong == []
