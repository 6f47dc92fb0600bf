"""`apply -f`, `get`, `delete`: for people without kubectl. Names and short names come from discovery."""

import json
import sys
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuaas.cli.context import Target, on_a_cluster, one_line
from gpuaas.cli.show import Table

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object, Resource


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    help="A file, a folder, or - for standard input; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Ask the server, change nothing.")
@on_a_cluster()
def apply(target: Target, files: tuple[str, ...], dry_run: bool) -> None:
    """Make the cluster be as the manifests say; what another server noted in them is left out."""
    objects = in_order(wished(obj) for name in files for obj in read_manifests(name))
    if not objects:
        raise click.ClickException("there is no object in what was given")

    async def act(client: "HttpClient", namespace: str) -> "list[Object]":
        made = []
        for number, obj in enumerate(objects, 1):
            name, kind = _name_of(obj), obj["kind"].lower()
            applied = await _applied(client, namespace, objects, number, dry_run=dry_run)
            made += [applied] if applied is not None else []
            if target.output == "text":
                asked = " (dry run)" if applied is not None else " when its namespace is there (dry run)"
                click.echo(f"{kind}/{name} applied{asked * dry_run}")
        return made

    made = target.work(act)
    target.show({"apiVersion": "v1", "kind": "List", "items": made}, lambda: None)


def _name_of(obj: "Object") -> str:
    name = obj["metadata"].get("name")
    if not name:
        has = "only a generateName" if obj["metadata"].get("generateName") else "no name"
        raise click.ClickException(
            f"{obj['kind']} has {has}: apply needs metadata.name (kubectl create makes one from generateName)"
        )
    return str(name)


async def _applied(
    client: "HttpClient", namespace: str, objects: "list[Object]", number: int, *, dry_run: bool
) -> "Object | None":
    """What became of the object of that number; None where a dry run cannot tell: its namespace is yet to be made."""
    from gpuaas.base.errors import ApiError
    from gpuaas.client.protocol import PatchKind

    obj = objects[number - 1]
    name, resource = _name_of(obj), await resource_of(client, obj)
    where = obj["metadata"].get("namespace") or namespace if resource.namespaced else ""
    options: dict[str, Any] = {"kind": PatchKind.APPLY, "field_manager": "gpuaas", "force": True, "dry_run": dry_run}
    try:
        return await client.patch(resource, name, obj, where, **options)
    except ApiError as error:
        if error.code not in _ABOUT_THE_OBJECT:
            raise
        to_be_made = {each["metadata"].get("name") for each in objects if each["kind"] == "Namespace"}
        if dry_run and error.code == 404 and where in to_be_made:
            return None
        left = len(objects) - number
        rest = f" ({left} more not tried)" if left else ""
        raise click.ClickException(f"{resource.kind.lower()}/{name}: {one_line(str(error))}{rest}") from None


_ABOUT_THE_OBJECT = (400, 403, 404, 409, 422)


def in_order(objects: "Iterable[Object]") -> "list[Object]":
    """Namespaces and definitions before what lies in them and is of them; otherwise as given."""
    return sorted(objects, key=lambda obj: obj.get("kind") not in ("Namespace", "CustomResourceDefinition"))


def wished(obj: "Object") -> "Object":
    """Without what only the server an object was read from could know, so that it can be taken to another one."""
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in _SERVERS_OWN}
    return {key: value for key, value in obj.items() if key != "status"} | {"metadata": metadata}


_SERVERS_OWN = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")


@click.command()
@click.argument("what")
@click.argument("name", default="")
@click.option("-A", "--all-namespaces", is_flag=True, help="Those of every namespace.")
@click.option("-l", "--selector", default="", help="Only those with these labels: team=ai,tier!=dev.")
@on_a_cluster("wide", "name")
def get(target: Target, what: str, name: str, all_namespaces: bool, selector: str) -> None:
    """Show objects: gpuaas get workloads, gpuaas get cq research -o yaml, gpuaas get job/train.

    WHAT is a kind by any of its names (workloads, workload, kwl), or kind/name. Without a NAME all of them are shown.
    """
    what, names = named_so(what, (name,) if name else ())
    name = names[0] if names else ""

    async def ask(client: "HttpClient", namespace: str) -> Any:
        resource = await find_resource(client, what)
        where = "" if all_namespaces or not resource.namespaced else namespace
        if target.output in ("json", "yaml", "name"):
            if name:
                return unmanaged(await client.get(resource, name, where))
            listing = await client.list(resource, where, labels=selector)
            return {"apiVersion": "v1", "kind": "List", "items": [*map(unmanaged, listing.items)]}
        return await _table(client, resource, where, name, selector)

    found = target.work(ask)

    def in_words() -> None:
        if target.output == "name":
            for each in found.get("items", [found]):
                click.echo(_full_name(each))
        else:
            _print(found, wide=target.output == "wide", namespaces=all_namespaces)

    target.show(found, in_words)


def unmanaged(obj: "Object") -> "Object":
    """Without the record of who owns which field, as kubectl shows objects."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def _full_name(obj: "Object") -> str:
    """As kubectl names things: job.batch/train, pod/train-0."""
    group = obj["apiVersion"].rpartition("/")[0]
    return f"{obj['kind'].lower()}{'.' * bool(group)}{group}/{obj['metadata']['name']}"


@click.command()
@click.argument("what")
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All of that kind in the namespace.")
@on_a_cluster()
def delete(target: Target, what: str, names: tuple[str, ...], everything: bool) -> None:
    """Delete objects: gpuaas delete job train, gpuaas delete job/train.

    WHAT is a kind by any of its names (workloads, workload, kwl), or kind/name.
    """
    what, names = named_so(what, names)
    if not names and not everything:
        raise click.UsageError("name what to delete, or say --all")
    if names and everything:
        raise click.UsageError(f"--all, or {', '.join(names)}: not both")

    async def act(client: "HttpClient", namespace: str) -> list[str]:
        from gpuaas.client.protocol import Propagation

        resource = await find_resource(client, what)
        where = namespace if resource.namespaced else ""
        chosen = names or tuple(each["metadata"]["name"] for each in (await client.list(resource, where)).items)
        for name in chosen:
            await client.delete(resource, name, where, propagation=Propagation.BACKGROUND)
            if target.output == "text":
                click.echo(f"{resource.kind.lower()}/{name} deleted")
        return [f"{resource.kind.lower()}/{name}" for name in chosen]

    deleted = target.work(act)
    target.show({"deleted": deleted}, lambda: None if deleted else click.echo("nothing found"))


def named_so(what: str, names: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Kind and names, also where they are written as `gpuaas ps` shows them: job/train job/next."""
    kinds = [each.partition("/") for each in (what, *names) if "/" in each]
    if not kinds:
        return what, names
    if len(kinds) <= len(names) or any(kind != kinds[0][0] or not kind or not name for kind, _, name in kinds):
        raise click.UsageError(f"{' '.join((what, *names))}: a kind and names, or KIND/NAME for each, of one kind")
    return kinds[0][0], tuple(name for _, _, name in kinds)


def read_manifests(name: str) -> "Iterator[Object]":
    from gpuaas.machinery.yamltext import YamlError, load_yaml_documents

    paths: list[Path | None] = [None] if name == "-" else _files(Path(name))
    for path in paths:
        try:
            text = sys.stdin.read() if path is None else path.read_text()
            for document in load_yaml_documents(text):
                yield from _objects(document, str(path or "standard input"))
        except (YamlError, OSError, UnicodeDecodeError) as error:
            raise click.ClickException(f"{path or 'standard input'}: {error}") from None


def _files(path: Path) -> list[Path | None]:
    if path.is_dir():
        return [each for each in sorted(path.iterdir()) if each.suffix in (".yaml", ".yml", ".json")]
    if not path.exists():
        raise click.ClickException(f"there is no file {path}")
    return [path]


def _objects(document: Any, source: str) -> "Iterator[Object]":
    if document is None:
        return
    if not isinstance(document, dict):
        raise click.ClickException(f"{source}: an object with apiVersion and kind was expected, not {_shown(document)}")
    for field in ("apiVersion", "kind"):
        if not document.get(field) or not isinstance(document[field], str):
            found = f"{field} is {_shown(document[field])}" if field in document else f"{field} is missing"
            raise click.ClickException(f"{source}: an object needs apiVersion and kind, both text: {found}")
    if document["kind"] == "Kustomization":
        return
    if document["kind"].endswith("List") and "items" in document:
        if not isinstance(document["items"], list):
            raise click.ClickException(f"{source}: items must be a list, not {_shown(document['items'])}")
        for item in document["items"]:
            yield from _objects(item, source)
        return
    if not isinstance(document.get("metadata") or {}, dict):
        raise click.ClickException(f"{source}: metadata must be a map, not {_shown(document['metadata'])}")
    document["metadata"] = document.get("metadata") or {}
    yield document


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"


async def resource_of(client: "HttpClient", obj: "Object") -> "Resource":
    from gpuaas.client.protocol import Resource

    group, _, version = obj["apiVersion"].rpartition("/")
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    from gpuaas.base.errors import ApiError

    try:
        served = (await _raw(client, path)).get("resources") or ()
    except ApiError as error:
        if error.code != 404:
            raise
        served = ()
    for each in served:
        if each["kind"] == obj["kind"] and "/" not in each["name"]:
            return Resource(group, version, each["name"], each["namespaced"], each["kind"])
    raise click.ClickException(f"the cluster knows no {obj['kind']} in {obj['apiVersion']}")


async def find_resource(client: "HttpClient", what: str) -> "Resource":
    """By plural, singular, kind or short name, with or without its group: pods, po, workloads.kueue.x-k8s.io."""
    from gpuaas.client.protocol import Resource

    wanted, _, group = what.lower().partition(".")
    known: set[str] = set()
    for found in ("/api", "/apis"):
        document = await _raw(client, found, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
        for item in document.get("items") or ():
            name = item["metadata"].get("name", "")
            if group and name != group:
                continue
            for version in item["versions"]:
                for each in version["resources"]:
                    kind = each["responseKind"]["kind"]
                    names = {each["resource"], each["singularResource"], kind.lower(), *(each.get("shortNames") or ())}
                    known |= names
                    if wanted in names and "list" in each["verbs"]:
                        scope = each["scope"] == "Namespaced"
                        return Resource(name, version["version"], each["resource"], scope, kind)
    near = get_close_matches(wanted, known, n=1)
    raise click.ClickException(
        f'the cluster has no resource called "{what}"' + (f"; did you mean {near[0]}?" if near else "")
    )


async def _raw(client: "HttpClient", path: str, accept: str = "application/json") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await client.raw("GET", path, accept=accept))
    return found


async def _table(client: "HttpClient", resource: "Resource", where: str, name: str, selector: str) -> dict[str, Any]:
    from urllib.parse import quote

    path = resource.path(where, name)
    if selector:
        path += f"?labelSelector={quote(selector)}"
    return await _raw(client, path, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")


def _print(table: dict[str, Any], *, wide: bool, namespaces: bool) -> None:
    rows = table.get("rows") or []
    if not rows:
        click.echo("nothing found")
        return
    columns = table["columnDefinitions"]
    shown = [index for index, each in enumerate(columns) if wide or not each.get("priority")]
    headers = [columns[index]["name"].upper() for index in shown]
    spare = [each["name"].upper() for each in reversed(columns) if each.get("priority")]
    cells = [[row["cells"][index] for index in shown] for row in rows]
    if namespaces:
        headers = ["NAMESPACE", *headers]
        cells = [[row["object"]["metadata"].get("namespace", ""), *line] for row, line in zip(rows, cells, strict=True)]
    Table(headers, cells, spare).print()
