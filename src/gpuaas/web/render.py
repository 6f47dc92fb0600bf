"""Pages to HTML: one Jinja environment for all, escaping by default, where a name that is not defined is an error.

A page is rendered whole, or one of its fragments: a block of the template, which sees the same names. The macros of
`components.html` are `ui` everywhere. Static files are served under the hash of their content and kept by browsers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from gpuaas.base.clock import parse_rfc3339
from gpuaas.web import svg

_HERE: Final = Path(__file__).parent
_STATIC: Final = _HERE / "static"
_TYPES: Final = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".woff2": b"font/woff2",
}


class Static:
    """The files of web/static by name, read once."""

    def __init__(self) -> None:
        files = {path.name: path for path in sorted(_STATIC.iterdir()) if path.suffix in _TYPES}
        self._bodies = {name: path.read_bytes() for name, path in files.items()}
        self._marks = {name: hashlib.sha256(body).hexdigest()[:12] for name, body in self._bodies.items()}

    def address(self, base: str, name: str) -> str:
        return f"{base}/static/{name}?v={self._marks[name]}"

    def file(self, name: str) -> tuple[bytes, bytes] | None:
        """The body and its media type."""
        body = self._bodies.get(name)
        return None if body is None else (body, _TYPES[Path(name).suffix])


class Renderer:
    def __init__(self) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters["when"] = when
        self._environment.globals["svg"] = svg
        for name in self._environment.list_templates():  # compiled now, in the thread that loads the pages
            self._environment.get_template(name)
        self._environment.globals["ui"] = self._environment.get_template("components.html").module

    def page(self, template: str, names: Mapping[str, Any]) -> str:
        return self._template(template).render(names)

    def fragment(self, template: str, block: str, names: Mapping[str, Any]) -> str:
        found = self._template(template)
        return "".join(found.blocks[block](found.new_context(dict(names)))).strip()

    def _template(self, name: str) -> Template:
        return self._environment.get_template(name)


@lru_cache(maxsize=4096)
def when(moment: str | float | None) -> Markup:
    """A time in UTC, and an element to which the script adds the age. It does not depend on now, so that HTML with
    times stays the same while the rows do."""
    if not moment:
        return Markup("")
    try:
        seconds = parse_rfc3339(moment) if isinstance(moment, str) else moment
        utc = datetime.fromtimestamp(int(seconds), UTC)
    except (ValueError, OverflowError, OSError):
        return Markup.escape(str(moment))
    stamp = utc.isoformat()[:19]
    words = f"{utc.day} {utc:%b} {stamp[11:]}"
    return Markup(
        '<span class="moment"><span class="stamp" title="{1} UTC">{2}</span> <time datetime="{0}Z"></time></span>'
    ).format(stamp, stamp.replace("T", " "), words)
