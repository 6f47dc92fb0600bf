"""The few pieces of Markdown the pages are made of."""

from collections.abc import Iterable, Sequence


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def codes(texts: Iterable[str]) -> str:
    return ", ".join(map(code, texts))


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def page(title: str, *parts: str) -> str:
    """With what every page says of itself first."""
    origin = "*Generated from the code by `make docs`; what should read otherwise is changed in the code.*"
    return "\n\n".join([origin, f"# {title}", *(part for part in parts if part)]) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
