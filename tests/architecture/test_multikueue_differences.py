"""Each listed difference from MultiKueue names tests that exist."""

import re
import tomllib
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def test_the_tests_that_differences_name_exist() -> None:
    listed = tomllib.loads((_ROOT / "docs_build" / "multikueue.toml").read_text())["difference"]
    tests = "\n".join(path.read_text() for path in (_ROOT / "tests").rglob("test_*.py"))
    for one in listed:
        for name in re.findall(r"`(test_\w+)`", one["reason"]):
            assert f"def {name}(" in tests, f"{one['title']} names {name}"
