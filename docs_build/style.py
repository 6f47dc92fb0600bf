"""Checks the word list of docs/style.md: `python -m docs_build.style` lists the lines of src that use one, and fails."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_HEADING = "## Words that do not stand in `src`"


def words(page: str) -> list[str]:
    """The words of the list: those in code marks in the first paragraph after its heading."""
    _, _, section = page.partition(_HEADING)
    listed = re.findall(r"`([a-z]+)`", section.strip().split("\n\n")[0])
    if not listed:
        raise ValueError(f'docs/style.md has no list under "{_HEADING}"')
    return listed


def findings(listed: list[str], source: Path) -> Iterator[str]:
    pattern = re.compile(rf"\b({'|'.join(listed)})\b", re.IGNORECASE)
    for path in sorted(source.rglob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if found := pattern.search(line):
                yield f"{path.relative_to(source.parent)}:{number}: {found[0]!r}: {line.strip()}"


def main() -> None:
    found = list(findings(words((_ROOT / "docs/style.md").read_text()), _ROOT / "src"))
    if found:
        print("\n".join(found))
        sys.exit(f"{len(found)} lines use a word of the list in docs/style.md: name the part that acts")


if __name__ == "__main__":
    main()
