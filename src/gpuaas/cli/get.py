"""`gpuaas get`: objects as kubectl shows them, several kinds and names at once too."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from gpuaas.cli.context import Target, on_a_cluster, one_line
from gpuaas.cli.objects import answered, find_resource, named_so
from gpuaas.cli.show import Table

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object, Resource


@click.command()
@click.argument("what")
@click.argument("names", nargs=-1)
@click.option("-A", "--all-namespaces", is_flag=True, help="Those of every namespace.")
@click.option("-l", "--selector", default="", help="Only those with these labels: team=ai,tier!=dev.")
@on_a_cluster("wide", "name")
def get(target: Target, what: str, names: tuple[str, ...], all_namespaces: bool, selector: str) -> None:
    """Show objects: gpuaas get workloads, gpuaas get cq,lq, gpuaas get cq research -o yaml, gpuaas get job/train.

    WHAT is a kind by any of its names (workloads, workload, kwl), several of them (cq,lq), or kind/name. Without NAMES
    all of them are shown.
    """
    asked = named_so(what, names)
    named = [name for _, names in asked for name in names]
    if named and all_namespaces:
        raise click.UsageError(f"-A, or {', '.join(named)}: not both; what has a name is in one namespace (-n)")
    if named and selector:
        raise click.UsageError(f"-l {selector}, or {', '.join(named)}: not both")
    look = Look(target.output, everywhere=all_namespaces, selector=selector)
    seen = target.work(lambda client, namespace: look.at(client, namespace, asked))
    missing = [words for part in seen for words in part.missing]
    if len(missing) < max(1, len(named)):
        objects = [obj for part in seen for obj in part.objects()]
        alone = len(named) == 1 and len(asked) == 1
        whole = objects[0] if alone and objects else {"apiVersion": "v1", "kind": "List", "items": objects}
        target.show(whole, lambda: look.tell(seen))
    for words in missing:
        click.ClickException(words).show()
    if missing:
        raise SystemExit(1)


@dataclass(frozen=True, slots=True)
class Seen:
    """Of one kind: what the server answered, and what it said of names that are not there."""

    resource: "Resource"
    answers: "list[Object]"
    missing: list[str]

    def objects(self) -> "Iterator[Object]":
        return (unmanaged(obj) for answer in self.answers for obj in answer.get("items", [answer]) if "metadata" in obj)

    def rows(self) -> list[dict[str, Any]]:
        return [row for answer in self.answers for row in answer.get("rows") or ()]


@dataclass(frozen=True, slots=True)
class Look:
    output: str
    everywhere: bool
    selector: str

    async def at(self, client: "HttpClient", namespace: str, asked: list[tuple[str, tuple[str, ...]]]) -> list[Seen]:
        return [await self._at(client, namespace, kind, names) for kind, names in asked]

    async def _at(self, client: "HttpClient", namespace: str, kind: str, names: tuple[str, ...]) -> Seen:
        from gpuaas.base.errors import ApiError

        resource = await find_resource(client, kind)
        where = "" if self.everywhere or not resource.namespaced else namespace
        found, missing = [], []
        for name in names or ("",):
            try:
                found.append(await self._answer(client, resource, where, name))
            except ApiError as error:
                if not name or error.code != 404:
                    raise
                missing.append(one_line(str(error)))
        return Seen(resource, found, missing)

    async def _answer(self, client: "HttpClient", resource: "Resource", where: str, name: str) -> "Object":
        if self.output in ("text", "wide"):
            return await _table(client, resource, where, name, self.selector)
        if name:
            return await client.get(resource, name, where)
        return {"items": (await client.list(resource, where, labels=self.selector)).items}

    def tell(self, seen: list[Seen]) -> None:
        if self.output == "name":
            for obj in (obj for part in seen for obj in part.objects()):
                click.echo(f"{_full_kind(obj['apiVersion'].rpartition('/')[0], obj['kind'])}/{obj['metadata']['name']}")
            return
        filled = [part for part in seen if part.rows()]
        if not filled:
            click.echo("nothing found")
        for number, part in enumerate(filled):
            if number:
                click.echo()
            self._table(part, with_kind=len(seen) > 1).print()

    def _table(self, part: Seen, *, with_kind: bool) -> Table:
        columns, rows = part.answers[0]["columnDefinitions"], part.rows()
        shown = [index for index, each in enumerate(columns) if self.output == "wide" or not each.get("priority")]
        headings = [columns[index]["name"].upper() for index in shown]
        cells = [[row["cells"][index] for index in shown] for row in rows]
        if with_kind:
            kind = _full_kind(part.resource.group, part.resource.kind)
            cells = [[f"{kind}/{first}", *rest] for first, *rest in cells]
        if self.everywhere and part.resource.namespaced:
            headings = ["NAMESPACE", *headings]
            places = [row["object"]["metadata"].get("namespace", "") for row in rows]
            cells = [[place, *line] for place, line in zip(places, cells, strict=True)]
        return Table(headings, cells, [each["name"].upper() for each in reversed(columns) if each.get("priority")])


async def _table(client: "HttpClient", resource: "Resource", where: str, name: str, selector: str) -> "Object":
    from urllib.parse import quote

    path = resource.path(where, name)
    if selector:
        path += f"?labelSelector={quote(selector)}"
    return await answered(client, path, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")


def unmanaged(obj: "Object") -> "Object":
    """Without the record of who owns which field, as kubectl shows objects."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def _full_kind(group: str, kind: str) -> str:
    """As kubectl names things: job.batch, pod."""
    return f"{kind.lower()}{'.' * bool(group)}{group}"
