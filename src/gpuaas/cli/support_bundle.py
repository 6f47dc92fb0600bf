"""`gpuaas support-bundle`: what helps to find out why jobs do not run, in one archive that may be shown to others.

Objects of Kueue, MultiKueue and Open Cluster Management, jobs, nodes, events, the findings of the doctor, and the end of
the server's log where it runs here. Secrets are never read; values of environment variables are taken out of pod
templates, and so are annotations that repeat a whole manifest.
"""

import io
import json
import tarfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import gpuaas
from gpuaas.cli.context import Target, on_a_cluster

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Resource

_GROUPS = ("kueue.x-k8s.io", "kueue.openshift.io", "gpuaas.dev", "multicluster.x-k8s.io", "visibility.kueue.x-k8s.io")
_SUFFIX = ".open-cluster-management.io"
_KINDS = {"Job", "JobSet", "RayCluster", "RayJob", "Node", "Namespace", "Event", "Lease", "PyTorchJob", "TrainJob"}
_NEVER = {"Secret", "ConfigMap", "TokenReview"}
_MOST_BYTES = 64 << 20  # of all objects, before they are compressed
_LOG_BYTES = 4 << 20
_PAGE = 500
_TAKEN_OUT = "(taken out)"
_WHOLE = "kubectl.kubernetes.io/last-applied-configuration"


@click.command("support-bundle")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="The archive.  [default: gpuaas-support-TIME.tar.gz in this folder]",
)
@on_a_cluster(objects=False)
def support_bundle(target: Target, out: Path | None) -> None:
    """Collect objects, events, findings and logs into an archive, without secrets."""
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    path = out or Path(f"gpuaas-support-{moment}.tar.gz")
    files, notes = target.work(lambda client, _: collect(client))
    files["doctor.json"] = _encoded(target.work(lambda client, _: _findings(client)))
    files.update(_server_log() if target.is_here() else {})
    files["README.txt"] = _read_me(notes).encode()
    with tarfile.open(path, "x:gz") as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"gpuaas-support/{name}")
            entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600  # noqa: TID251
            archive.addfile(entry, io.BytesIO(content))
    path.chmod(0o600)
    click.echo(f"{path}: {len(files)} files, {path.stat().st_size / 1024:.0f} KiB; no secrets, no values of variables")


async def collect(client: "HttpClient") -> tuple[dict[str, bytes], list[str]]:
    """A file for each kind; and what is missing, with the reason."""
    from gpuaas.base.errors import ApiError

    files: dict[str, bytes] = {}
    notes: list[str] = []
    left = _MOST_BYTES
    for resource in wanted([each.resource for each in await client.discover() if each.allows("list")]):
        try:
            found = await _all_of(client, resource, left)
        except ApiError as error:
            notes.append(f"{resource}: {error}")
            continue
        content = _encoded([shareable(each) for each in found])
        if len(content) > left:
            notes.append(f"{resource}: {len(found)} objects are left out, the archive would be too large")
            continue
        left -= len(content)
        if found:
            files[f"objects/{resource}.json"] = content
    return files, notes


def wanted(resources: "Sequence[Resource]") -> "list[Resource]":
    """Each once, by name; Secrets and ConfigMaps never."""
    chosen = {
        str(each): each
        for each in resources
        if each.kind not in _NEVER and (each.group in _GROUPS or each.group.endswith(_SUFFIX) or each.kind in _KINDS)
    }
    return [chosen[name] for name in sorted(chosen)]


async def _all_of(client: "HttpClient", resource: "Resource", most: int) -> list[Any]:
    """In pages; no more than could be kept."""
    found: list[Any] = []
    more, size = "", 0
    while True:
        page = await client.list(resource, limit=_PAGE, continue_=more)
        found += page.items
        size += sum(len(str(each)) for each in page.items)
        more = page.continue_
        if not more or size > most:
            return found


def shareable(obj: Any) -> Any:
    """The object without managed fields, whole manifests in annotations, tokens of kubeconfigs and values of `env`."""
    if isinstance(obj, Mapping):
        return {
            key: _without_values(value) if key == "env" else shareable(value)
            for key, value in obj.items()
            if key not in ("managedFields", _WHOLE)
        }
    return [shareable(each) for each in obj] if isinstance(obj, list) else obj


def _without_values(variables: Any) -> Any:
    if not isinstance(variables, list):
        return _TAKEN_OUT
    return [
        {**each, "value": _TAKEN_OUT} if isinstance(each, Mapping) and "value" in each else each for each in variables
    ]


async def _findings(client: "HttpClient") -> list[Any]:
    from gpuaas.cli.doctor.command import CLUSTER_CHECKS, ask_cluster

    return [each.row() for each in await ask_cluster(client, CLUSTER_CHECKS)]


def _server_log() -> dict[str, bytes]:
    from gpuaas.assembly.home import Home

    home = Home.default()
    try:
        with home.log.open("rb") as file:
            file.seek(max(0, home.log.stat().st_size - _LOG_BYTES))
            return {"gpuaas.log": file.read()}
    except OSError:
        return {}


def _encoded(value: Any) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False).encode()


def _read_me(notes: Sequence[str]) -> str:
    lines = [
        f"gpuaas {gpuaas.__version__}",
        "objects/  a file for each kind, as the API returned them, without secrets and values of variables",
        "doctor.json  what gpuaas doctor found",
        "gpuaas.log  the end of the server's log, where it ran on this machine",
        "Commands of containers are kept: look through them before you hand this on.",
    ]
    return "\n".join([*lines, *(f"missing: {each}" for each in notes)]) + "\n"
