"""`gpuaas replay FILE...`: run conformance vectors through our own decisions and show where they differ.

Recognises the kind of a vector by its keys. Ends with `N of M agree`; exits 1 when one differs, 2 when a file cannot be read
as vectors.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gpuaas.cli.vectors import devices, placement, profiles, queues
from gpuaas.cli.vectors.verdicts import Difference, Verdict

Vector = dict[str, Any]
# How a kind is recognised, and what judges it.
_KINDS: tuple[tuple[Callable[[Vector], bool], Callable[[Vector], Verdict]], ...] = (
    (placement.is_placement, placement.judge),
    (devices.is_devices, devices.judge),
    (profiles.is_profiles, profiles.judge),
    (lambda vector: queues.kind_of(vector) is not None, queues.judge),
)


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--family", help="Only vectors of this family, by its name in the file.  [default: all]")
@click.option("--show", default=10, show_default=True, help="How many differing vectors to print.")
def replay(files: tuple[Path, ...], family: str | None, show: int) -> None:
    """Run vectors (JSON lines, plain or .gz) and compare our decisions with the measured ones."""
    console = Console()
    vectors = [vector for file in files for vector in _read(file)]
    if family is not None:
        vectors = [vector for vector in vectors if _family(vector) == family]
    if not vectors:
        raise click.ClickException("no vectors: the files are empty, or none is of that family")
    differing: list[Verdict] = []
    informative: list[Verdict] = []
    compared = successors = 0
    columns = (TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        for vector in progress.track(vectors):
            verdict = _judged(vector)
            if verdict.informative:
                informative.append(verdict)
                continue
            compared += not devices.is_facts(vector)
            successors += verdict.successor
            if not verdict.agrees:
                differing.append(verdict)
    profiles.close()
    for verdict in differing[:show]:
        _print(console, verdict)
    if len(differing) > show:
        console.print(f"... and {len(differing) - show} more")
    if informative:
        agreeing = sum(verdict.agrees for verdict in informative)
        console.print(
            f"apart: {len(informative)} that a newer version of the original answers otherwise, {agreeing} of them as here",
            highlight=False,
        )
    if successors:
        console.print(f"apart: {successors} that an announced successor will answer otherwise", highlight=False)
    console.print(f"{compared - len(differing)} of {compared} agree", highlight=False)
    if differing:
        raise SystemExit(1)


def _judged(vector: dict[str, Any]) -> Verdict:
    try:
        judge = next(judge for is_kind, judge in _KINDS if is_kind(vector))
        return judge(vector)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        name = (vector.get("scenario") or vector).get("name", "a vector without a name")
        raise Unreadable(f"{name}: not as the format says: {type(error).__name__}: {error}") from error


def _read(file: Path) -> Iterator[dict[str, Any]]:
    reading = gzip.open if file.suffix == ".gz" else open
    try:
        with reading(file, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _vector(line, f"{file}:{number}")
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{file}: cannot be read: {error}") from error


def _vector(line: str, where: str) -> dict[str, Any]:
    try:
        vector = json.loads(line)
    except ValueError as error:
        raise Unreadable(f"{where}: not JSON: {error}") from error
    if not isinstance(vector, dict) or not _is_known(vector):
        keys = ", ".join(sorted(vector)) if isinstance(vector, dict) else type(vector).__name__
        raise Unreadable(
            f"{where}: not a vector this command runs: found {keys or 'no keys'}; "
            "a queueing vector has `scenario` and `expect`, a topology vector `levels`, `nodes`, `steps` and `expect`, "
            "a placement vector `steps` and an `expect` of placements, a device or profile vector `family`, `input` and `expect`"
        )
    return vector


def _is_known(vector: dict[str, Any]) -> bool:
    return any(is_kind(vector) for is_kind, _ in _KINDS)


class Unreadable(click.ClickException):
    exit_code = 2


def _family(vector: dict[str, Any]) -> str:
    return str((vector.get("scenario") or vector).get("family", ""))


def _print(console: Console, verdict: Verdict) -> None:
    for difference in verdict.differences:
        table = Table(title=f"{verdict.name} ({verdict.family}): {difference.where}", title_justify="left")
        table.add_column("measured", overflow="fold")
        table.add_column("engine", overflow="fold")
        table.add_row(*_sides(difference))
        console.print(table)


def _sides(difference: Difference) -> tuple[str, str]:
    return _side(difference.expected), _side(difference.found)


def _side(side: object) -> str:
    return "nothing" if side is None else json.dumps(side, indent=1, sort_keys=True)
