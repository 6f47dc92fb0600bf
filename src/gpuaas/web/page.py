"""The contract of a page: what it gets of a request (`Visit`), what it is (`Page`), and what can be done on it (`Action`).

A page is one module in `web/pages` with one `PAGE = Page(...)`; `web/pages/__init__.py` lists them in `PAGES`, in the
order of the navigation. Its template is rendered with what `load` returns, plus

    visit          the Visit itself
    page           the Page
    nav            the pages with a label, as (label, address, whether it is this one)
    url(path)      the address of a page by its path, such as url("/queues/team-a")
    act(name, **parts)  the Act of an action (address, button, danger) or None where the user may not perform it:
                   act("cancel", namespace=row.namespace, job=row.job), act("stop-queue", name=row.clusterqueue)
    ui             the macros of templates/components.html

Everything is escaped by default, and a name that is not defined is an error. No `style="…"`, no inline script: the
Content-Security-Policy refuses both.

A fragment is a Jinja block of the page's own template that renders exactly one element whose id is the block's name:

    {% block queues %}<section id="queues">…</section>{% endblock %}

The stream renders the fragments of a page again when something changes and sends those whose HTML differs, so a
fragment must depend on rows alone: show times as `{{ row.created | when }}` (a <time> to which the script adds the
age), never as an age that grows by itself. Blocks see what `load` returned and the names above, not `{% set %}` or
`{% import %}` from outside the block.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from gpuaas.apiserver.security.identity import User
from gpuaas.apiserver.views import Views
from gpuaas.client.protocol import Object, PatchKind, Resource
from gpuaas.views.snapshot import FOLLOWED

Form = Mapping[str, str]
"""The fields of a form by name; only those that the action declares."""
Context = Mapping[str, Any]
THEMES: Final = ("auto", "light", "dark")


class Api(Protocol):
    """The Kubernetes API as the visitor: RBAC, admission and audit apply as to kubectl. Raises ApiError."""

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object: ...

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 500
    ) -> Sequence[Object]: ...

    async def create(
        self, resource: Resource, obj: Object, namespace: str = "", *, dry_run: bool = False
    ) -> Object: ...

    async def notebook_link(self, namespace: str, name: str) -> str:
        """A one-time link that opens a notebook."""
        ...

    async def patch(
        self, resource: Resource, name: str, patch: Object, namespace: str = "", *, kind: PatchKind = PatchKind.MERGE
    ) -> Object: ...

    async def delete(self, resource: Resource, name: str, namespace: str = "") -> None: ...

    async def log(self, pod: str, namespace: str, *, container: str = "", tail_lines: int = 100) -> str: ...

    def resources_of(self, kind: str) -> Sequence[Resource]:
        """What is served as a kind, whose name may be in lower case."""
        ...

    def resource_of(self, api_version: str, kind: str) -> Resource | None: ...


class May(Protocol):
    def __call__(self, verb: str, resource: Resource, namespace: str = "", name: str = "") -> bool: ...


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of a signed-in person for one cluster."""

    user: User
    cluster: str
    base: str
    """What comes before the path of a page: `/ui`, or `/clusters/NAME/ui`."""
    path: str
    """Of this request below `base`, such as `/queues/team-a`."""
    parts: Mapping[str, str]
    """What the pattern's names stand for: `/queues/{name}` gives `name`."""
    query: Mapping[str, str]
    now: float
    """Unix seconds."""
    views: Views
    """Rows, asked for as `visit.views.jobs(visit.user, …)`; raises Forbidden where the user may not see them."""
    may: May
    """Whether the user may do that: `visit.may("patch", CLUSTER_QUEUES, name="team-a")`."""
    api: Api
    csrf: str = ""
    theme: str = "auto"

    def url(self, path: str) -> str:
        return self.base + path


@dataclass(frozen=True, slots=True)
class Page:
    name: str
    """Unique; also the name of the link in the navigation and of the page in tests: <body data-page=NAME>."""
    path: str
    """Below `base`: `/` is the first page, `/queues/{name}` one queue. A part in braces stands for one path segment."""
    title: str
    """Of the browser's tab; `{name}` is replaced by that part of the path."""
    template: str
    load: Callable[[Visit], Context | Awaitable[Context]]
    """What the template shows. May raise ApiError: NotFound and Forbidden become a page that says so."""
    nav: str | None = None
    fragments: tuple[str, ...] = ()
    """Block names, see above. None: the page is not live."""
    follows: tuple[Resource, ...] = FOLLOWED
    """What it shows: only a change of one of these renders its fragments again."""


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    label: str
    value: str = ""
    """What the form begins with."""
    choices: tuple[tuple[str, str], ...] = ()
    """What it may be, each with its words; none: any text."""
    hint: str = ""
    longest: int = 253
    suggests: Callable[[Visit], Awaitable[Sequence[str]]] | None = None
    """Texts that are offered while one types."""


@dataclass(frozen=True, slots=True)
class Action:
    """GET shows the effect and a form, POST performs and leads back. Listed in `web/actions.py`'s ACTIONS."""

    name: str
    path: str
    """As of a Page: `/jobs/{namespace}/{name}/cancel`."""
    title: str
    """`Cancel job {name}`."""
    button: str
    allowed: Callable[[Visit], bool]
    effect: Callable[[Visit, Form], Awaitable[str]]
    """What would happen, in one sentence, as the engine's what-if computes it: "starts 2 jobs, evicts nothing". It is
    shown before the action, and computed again when it is confirmed: where it differs, the page asks again."""
    perform: Callable[[Visit, Form], Awaitable[str]]
    """Does it through `visit.api`; a sentence that says what was done."""
    back: str
    """The path of the page that is shown then: `/`, or `/queues/{name}`."""
    fields: tuple[Field, ...] = ()
    danger: bool = False


@dataclass(frozen=True, slots=True)
class Act:
    """An action as a page links to it."""

    name: str
    address: str
    title: str
    button: str
    danger: bool = False
