"""Sets of completion indexes and their compressed text: `0-2,5,7,8`."""

from collections.abc import Iterable

from gpuaas.base.numbers import natural


def parse_indexes(text: str | None, completions: int) -> set[int]:
    """The indexes below `completions`; parts that cannot be read are left out."""
    found: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        start, end = natural(first), natural(last or first)
        if start is None or end is None:
            continue
        found.update(range(start, min(end, completions - 1) + 1))
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    """Runs of three and more become `first-last`."""
    parts: list[str] = []
    run: list[int] = []
    for index in [*sorted(indexes), None]:
        if run and index == run[-1] + 1:
            run.append(index)
            continue
        if len(run) > 2:
            parts.append(f"{run[0]}-{run[-1]}")
        else:
            parts += map(str, run)
        run = [] if index is None else [index]
    return ",".join(parts)


def first_free(taken: set[int], count: int, completions: int) -> list[int]:
    """The lowest `count` indexes that are not taken."""
    free: list[int] = []
    for index in range(completions):
        if len(free) == count:
            break
        if index not in taken:
            free.append(index)
    return free
