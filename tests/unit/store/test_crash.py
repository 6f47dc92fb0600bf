"""Real kills of a real process; `python -m tests.unit.store.crash` does many more rounds of the same."""

from pathlib import Path

from tests.unit.store.crash import crash_rounds


def test_kill_9_loses_nothing_acknowledged_tears_nothing_and_repeats_no_revision(tmp_path: Path) -> None:
    outcome = crash_rounds(tmp_path, rounds=4)
    assert outcome.acknowledged > 0
    assert (outcome.lost, outcome.torn, outcome.repeated) == (0, 0, 0)
