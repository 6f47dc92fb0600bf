"""Whether the server is well: the checks behind `/livez`, `/readyz` and `/healthz`, and their reports to monitors.

Each is named as the real server names it: who probes `/readyz/etcd` asks after the store.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from gpuaas.apiserver.http import Response

_TEXT: Final = b"text/plain; charset=utf-8"


class Health:
    """The result of each probe."""

    def __init__(self) -> None:
        self._found: Counter[tuple[str, str, str]] = Counter()
        self._last: dict[tuple[str, str], bool] = {}

    def answer(self, kind: str, *, stored: bool, ending: bool, query: Mapping[str, Sequence[str]]) -> Response:
        left_out = {name for name in query.get("exclude", ()) if name}
        lines, well = [], True
        for name, good in checks(kind, stored=stored, ending=ending).items():
            if name in left_out:
                lines.append(f"[+]{name} excluded: ok")
                continue
            self._note(kind, name, good)
            well = well and good
            lines.append(f"[+]{name} ok" if good else f"[-]{name} failed: reason withheld")
        unknown = sorted(left_out - set(checks(kind, stored=stored, ending=ending)))
        if unknown:
            names = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        if well and "verbose" not in query:
            return Response(200, b"ok", _TEXT)
        lines.append(f"{kind} check {'passed' if well else 'failed'}")
        return Response(200 if well else 500, ("\n".join(lines) + "\n").encode(), _TEXT)

    def metrics(self) -> bytes:
        """In the text format of Prometheus: each check as it was last found, and how often it was found so."""
        lines = ["# HELP kubernetes_healthcheck Whether a check passed, 1 or 0.", "# TYPE kubernetes_healthcheck gauge"]
        for (kind, name), good in sorted(self._last.items()):
            lines.append(f'kubernetes_healthcheck{{name="{name}",type="{kind}"}} {int(good)}')
        lines.append("# HELP kubernetes_healthchecks_total How often a check passed or did not.")
        lines.append("# TYPE kubernetes_healthchecks_total counter")
        for (kind, name, status), times in sorted(self._found.items()):
            lines.append(f'kubernetes_healthchecks_total{{name="{name}",status="{status}",type="{kind}"}} {times}')
        return ("\n".join(lines) + "\n").encode()

    def _note(self, kind: str, name: str, good: bool) -> None:
        self._last[kind, name] = good
        self._found[kind, name, "success" if good else "error"] += 1


def checks(kind: str, *, stored: bool, ending: bool) -> dict[str, bool]:
    found = {"ping": True, "log": True, "etcd": stored}
    return found | {"shutdown": not ending} if kind == "readyz" else found


def single(kind: str, name: str, *, stored: bool, ending: bool) -> Response | None:
    """One check by its own path; None where there is no such check."""
    good = checks(kind, stored=stored, ending=ending).get(name)
    if good is None:
        return None
    return Response(200, b"ok", _TEXT) if good else Response(500, b"internal server error: not well\n", _TEXT)
