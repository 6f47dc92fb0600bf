"""`apply -f` and `delete`: for people without kubectl. Names and short names come from discovery."""

import json
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuaas.cli.context import Target, on_a_cluster, one_line

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

    made, refused = target.work(lambda client, namespace: _apply(client, namespace, objects, target, dry_run=dry_run))
    target.show({"apiVersion": "v1", "kind": "List", "items": made}, lambda: None)
    if refused:
        if len(objects) > 1:
            click.echo(
                f"Error: {refused} of {len(objects)} refused, {len(objects) - refused} applied{' (dry run)' * dry_run}",
                err=True,
            )
        raise SystemExit(1)


async def _apply(
    client: "HttpClient", namespace: str, objects: "list[Object]", target: Target, *, dry_run: bool
) -> "tuple[list[Object], int]":
    """What became of the objects, and how many were refused: one that is does not keep the others from being applied."""
    made, refused = [], 0
    for obj in objects:
        try:
            applied = await _applied(client, namespace, obj, objects, dry_run=dry_run)
        except click.ClickException as error:
            error.show()
            refused += 1
            continue
        made += [applied] if applied is not None else []
        if target.output == "text":
            asked = " (dry run)" if applied is not None else " when its namespace is there (dry run)"
            click.echo(f"{_short_name(obj)} applied{asked * dry_run}")
    return made, refused


def _short_name(obj: "Object") -> str:
    name = obj["metadata"].get("name")
    if not name:
        has = "only a generateName" if obj["metadata"].get("generateName") else "no name"
        raise click.ClickException(
            f"{obj['kind']} has {has}: apply needs metadata.name (kubectl create makes one from generateName)"
        )
    return f"{obj['kind'].lower()}/{name}"


async def _applied(
    client: "HttpClient", namespace: str, obj: "Object", objects: "list[Object]", *, dry_run: bool
) -> "Object | None":
    """What became of the object; None where a dry run cannot tell: its namespace is yet to be made."""
    from gpuaas.base.errors import ApiError
    from gpuaas.client.protocol import PatchKind

    shown, name = _short_name(obj), obj["metadata"].get("name")
    try:
        resource = await resource_of(client, obj)
    except click.ClickException as error:
        raise click.ClickException(f"{shown}: {error.message}") from None
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
        raise click.ClickException(f"{shown}: {one_line(str(error))}") from None


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
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All of that kind in the namespace.")
@on_a_cluster()
def delete(target: Target, what: str, names: tuple[str, ...], everything: bool) -> None:
    """Delete objects: gpuaas delete job train, gpuaas delete job/train.

    WHAT is a kind by any of its names (workloads, workload, kwl), several of them (cq,lq), or kind/name.
    """
    asked = named_so(what, names)
    named = [name for _, names in asked for name in names]
    if not named and not everything:
        raise click.UsageError("name what to delete, or say --all")
    if named and everything:
        raise click.UsageError(f"--all, or {', '.join(named)}: not both")

    missing: list[str] = []

    async def act(client: "HttpClient", namespace: str) -> list[str]:
        resources = [await find_resource(client, kind) for kind, _ in asked]  # all of them, before any is gone
        gone: list[str] = []
        for resource, (_, names) in zip(resources, asked, strict=True):
            async for name in _deleted(client, resource, namespace, names, missing):
                gone.append(f"{resource.kind.lower()}/{name}")
                if target.output == "text":
                    click.echo(f"{gone[-1]} deleted")
        return gone

    deleted = target.work(act)
    target.show({"deleted": deleted}, lambda: None if deleted or missing else click.echo("nothing found"))
    for words in missing:
        click.ClickException(words).show()
    if missing:
        raise SystemExit(1)


async def _deleted(
    client: "HttpClient", resource: "Resource", namespace: str, names: tuple[str, ...], missing: list[str]
) -> AsyncIterator[str]:
    """Each of the names once it is gone, all there are without any; `missing` gets what is said of those not there."""
    from gpuaas.base.errors import NotFound
    from gpuaas.client.protocol import Propagation

    where = namespace if resource.namespaced else ""
    for name in names or [each["metadata"]["name"] for each in (await client.list(resource, where)).items]:
        try:
            await client.delete(resource, name, where, propagation=Propagation.BACKGROUND)
            yield name
        except NotFound as error:
            if names:
                missing.append(one_line(str(error)))


def named_so(what: str, names: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """Kinds and names: `job train next`, `cq,lq`, or as `gpuaas ps` shows them, `job/train notebook/desk`."""
    words = (what, *names)
    pairs = [each.partition("/") for each in words]
    if all(kind and slash and name for kind, slash, name in pairs):
        kinds = dict.fromkeys(kind for kind, _, _ in pairs)
        return [(each, tuple(name for kind, _, name in pairs if kind == each)) for each in kinds]
    if any(slash for _, slash, _ in pairs):
        raise click.UsageError(f"{' '.join(words)}: a kind and names, or KIND/NAME for each")
    several = [each for each in what.split(",") if each]
    if len(several) > 1 and names:
        raise click.UsageError(f"{' '.join(words)}: names of one kind, or KIND/NAME for each of several")
    return [(each, names) for each in several or [what]]


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
        served = (await answered(client, path)).get("resources") or ()
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
        document = await answered(client, found, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
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


async def answered(client: "HttpClient", path: str, accept: str = "application/json") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await client.raw("GET", path, accept=accept))
    return found
