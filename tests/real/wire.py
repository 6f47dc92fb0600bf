"""Raw requests: a case is a function that talks to one server through `Wire`, which writes down every answer.

The same function runs once for each side; it may use what it was answered (a revision, a uid) in its next request.
Cases live in `exchanges/`, registered by `@case`; a case bears its function's name and gets a namespace of that name.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import pkgutil
import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlencode

from tests.real.normal import Normaliser
from tests.real.script import Outcome
from tests.real.sides import Response, Side

JSON = "application/json"
YAML = "application/yaml"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

HEADERS = ("content-type", "warning", "retry-after", "www-authenticate")
QUIET_SECONDS = 0.7
UNTIL_SECONDS = 20.0
STEP_LENGTH = 260

Body = Callable[["Wire"], None]
_CASES: dict[str, Body] = {}


def case(body: Body) -> Body:
    name = body.__name__.replace("_", "-")
    if name in _CASES:
        raise ValueError(f"two cases are called {name}")
    _CASES[name] = body
    return body


def load() -> dict[str, Body]:
    """All cases by name, in the order of their files."""
    from tests.real import exchanges

    for module in sorted(module.name for module in pkgutil.iter_modules(exchanges.__path__)):
        importlib.import_module(f"{exchanges.__name__}.{module}")
    return dict(_CASES)


class Wire:
    """One case's conversation with one side."""

    def __init__(self, side: Side, namespace: str) -> None:
        self.side = side
        self.ns = namespace
        self.outcomes: list[Outcome] = []
        self.normal: Normaliser
        self.settled = False  # a case sets it to let the controllers finish before each request
        self.forget()

    def path(self, resource: str, group: str = "v1") -> str:
        """The path of a namespaced resource (`configmaps/a`), of the core group unless told (`apps/v1`)."""
        root = "/api" if group == "v1" else "/apis"
        return f"{root}/{group}/namespaces/{self.ns}/{resource}"

    def get(self, path: str, *, accept: str = JSON, **query: object) -> Response:
        return self.send("GET", path, query=query, accept=accept)

    def post(self, path: str, body: Any, *, content: str = JSON, **query: object) -> Response:
        return self.send("POST", path, body, content=content, query=query)

    def put(self, path: str, body: Any, *, content: str = JSON, **query: object) -> Response:
        return self.send("PUT", path, body, content=content, query=query)

    def patch(self, path: str, body: Any, content: str, **query: object) -> Response:
        return self.send("PATCH", path, body, content=content, query=query)

    def apply(self, path: str, body: Any, manager: str, **query: object) -> Response:
        return self.patch(path, body, APPLY, fieldManager=manager, **query)

    def delete(self, path: str, body: Any = None, **query: object) -> Response:
        return self.send("DELETE", path, body, query=query)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: str = JSON,
        accept: str = JSON,
        query: dict[str, object] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Response:
        """Send it and write the answer down; a `body` that is text or bytes goes as it is, anything else as JSON."""
        data = body if isinstance(body, str | bytes | None) else json.dumps(body)
        whole = f"{path}?{urlencode(query)}" if query else path
        types = {"Accept": accept} | ({"Content-Type": content} if data is not None and content else {})
        if self.settled:
            self.side.settle(self.ns)
        answer = self.side.send(method, whole, data, types | (headers or {}))
        self.record(f"{method} {whole}{'' if body is None else f' {_line(body)}'}", answer)
        return answer

    def record(self, step: str, answer: Response) -> None:
        headers = [f"{name}: {answer.headers[name]}" for name in HEADERS if name in answer.headers]
        self.note(
            step,
            status=str(answer.status),
            headers=self.normal.text("\n".join(headers)),
            body=self.normal.body(answer.body),
        )

    def forget(self) -> None:
        """Start counting uids, revisions and addresses anew: what follows has nothing to do with what went before."""
        self.normal = Normaliser(self.side.addresses)

    def note(self, step: str, **parts: str) -> None:
        # Shortened last: before, the two sides' uids and revisions have different lengths.
        line = self.normal.text(step)
        self.outcomes.append(Outcome(line if len(line) <= STEP_LENGTH else f"{line[: STEP_LENGTH - 3]}...", parts))

    def prepare(self, method: str, path: str, body: Any = None, content: str = JSON) -> Response:
        """A request whose answer is not compared."""
        data = body if isinstance(body, str | bytes | None) else json.dumps(body)
        return self.side.send(method, path, data, {"Content-Type": content} if data is not None else {})

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what comes a moment later; when it does not come, the next answers will tell."""
        deadline = time.monotonic() + UNTIL_SECONDS
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.05)

    def watch(self, path: str, during: Callable[[], object], **query: object) -> list[Any]:
        """Watch while `during` runs; the events until it falls silent are written down and returned."""
        whole = f"{path}?{urlencode({'watch': 'true', **query})}"
        with self.side.stream(whole) as (response, under):
            during()
            under.settimeout(QUIET_SECONDS)
            lines: list[bytes] = []
            with contextlib.suppress(TimeoutError):
                while line := response.readline():
                    lines.append(line)
        events = [json.loads(line) for line in lines]
        # A bookmark comes when the server likes and carries its newest revision: only that it came is compared.
        shown = [self.normal.value(event) for event in events if event["type"] != "BOOKMARK"]
        self.note(f"WATCH {whole}", status=str(response.status), events="\n".join(shown))
        return events


def texts(values: Iterable[object]) -> str:
    return "\n".join(str(value) for value in values)


def _line(body: Any) -> str:
    """The body as it stands in a step's name: on one line, and in one order."""
    text = (
        body if isinstance(body, str) else repr(body) if isinstance(body, bytes) else json.dumps(body, sort_keys=True)
    )
    return text.replace("\n", "\\n")
