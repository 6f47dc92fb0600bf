"""A short run of hostile requests; `python -m tests.conformance.fuzz --count 20000` is the long one."""

from pathlib import Path

from tests.conformance.fuzz import fuzz


def test_hostile_requests_cause_no_500_no_hang_and_no_broken_answer(tmp_path: Path) -> None:
    findings = fuzz(tmp_path, count=600, seed=7)
    assert findings.sent > 550, "a step that finds nothing to change sends nothing"
    assert len(findings.codes) > 8, "the requests get into all corners"
    assert findings.clean(), findings.report()
