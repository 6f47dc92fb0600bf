"""A place in an object as a chain of steps, which becomes text only where there is something to say about it."""

from typing import Any, Final

# The steps to a value, innermost outside: (((), "spec"), "items"), 3).
Path = tuple[Any, ...]
NO_PATH: Final[Path] = ()


def text_of(path: Path) -> str:
    steps: list[Any] = []
    while path:
        path, step = path
        steps.append(step)
    text = ""
    for step in reversed(steps):
        text = f"{text}[{step}]" if isinstance(step, int) else f"{text}.{step}" if text else step
    return text
