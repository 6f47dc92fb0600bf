"""Which pages there are, and the one that leads to the others."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from docs_build import cli, differences, events, kinds, markdown, metrics

FOLDER: Final = Path(__file__).parents[1] / "docs" / "reference"
# file, title, one line for the overview, who writes it
_PAGES: Final[tuple[tuple[str, str, str, Callable[[], str]], ...]] = (
    ("cli.md", "Commands", "every command of `gpuaas`, with its arguments and options", cli.body),
    ("kinds.md", "Kinds", "what the API serves, and what happens with it", kinds.body),
    ("metrics.md", "Metrics", "what `/metrics` tells, with types and labels", metrics.body),
    ("events.md", "Events", "what is told about objects, by whom, in which words", events.body),
    (
        "differences.md",
        "Differences from Kubernetes and Kueue",
        "where the same request gets another answer, and why",
        differences.body,
    ),
)


NAMES: Final = ("README.md", *(name for name, *_ in _PAGES))


@cache
def pages() -> dict[str, str]:
    """The text of each page, by its file name."""
    made = {name: markdown.page(title, body()) for name, title, _, body in _PAGES}
    return {"README.md": _overview(), **made}


def _overview() -> str:
    listed = "\n".join(f"- [{title}]({name}): {line}" for name, title, line, _ in _PAGES)
    return markdown.page(
        "Reference",
        "These pages are written by `make docs` from the code that does what they tell, so they are true of the version"
        " they come with; a test fails when one is not. How things are used is told in the [guides](../guides), what is set"
        " in Kueue's configuration in [Configuring admission](../guides/configuration.md).",
        listed,
    )
