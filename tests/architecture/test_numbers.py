"""Digits of other alphabets are no numbers in Kubernetes: text from outside becomes one in base/numbers.py only."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "gpuaas"
WIDE = re.compile(r"\.isdigit\(|\.isdecimal\(|\.isnumeric\(|\\d")
ITS_OWN = {
    "base/numbers.py",
    "machinery/schema/gopattern.py",  # translates \d of patterns in schemas, and says ASCII
}
LATER = "executors/"  # reads scripts of simulated pods, where a number decides about that pod alone


def test_digits_are_looked_for_in_one_module() -> None:
    found = [
        f"{name}:{number}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        if (name := path.relative_to(SOURCE).as_posix()) not in ITS_OWN and not name.startswith(LATER)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if WIDE.search(line)
    ]
    assert not found, "use base/numbers.py or [0-9]: " + "; ".join(found)
