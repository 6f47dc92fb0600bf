"""A few real kills of the whole server; `python -m tests.conformance.crash --rounds 100` does as many as you like."""

from pathlib import Path

from tests.conformance.crash import crash_rounds


def test_kill_9_loses_no_acknowledged_write_tears_none_repeats_no_revision_and_watches_go_on(tmp_path: Path) -> None:
    outcome = crash_rounds(tmp_path, rounds=4)
    assert outcome.acknowledged > 20
    assert outcome.watch_ends >= 4
    assert outcome.relists == 1, "resuming is not listing again"
    assert outcome.clean(), outcome.report()
