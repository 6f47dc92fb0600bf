"""What a store that goes back in time means for the jobs since: said before it happens, and their logs are kept.

After a restore, or a start that accepts lost writes, the store does not know the pods made since. What still runs of
them on this machine ends with the next start, because it would hold GPUs that nothing accounts for; its logs are linked
into `kept-logs` first. What ended since is not known to have ended, so it may run again.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gpuaas.assembly.home import Home
from gpuaas.executors.processes import Process
from gpuaas.store import StoreError
from gpuaas.store.snapshots import contents

_ENDS = frozenset({"Complete", "Failed", "Succeeded", "Finished"})
_NAMED = 5
_JOBS = frozenset({
    "Job", "JobSet", "PyTorchJob", "TFJob", "XGBoostJob", "MPIJob", "JAXJob", "PaddleJob", "TrainJob", "RayJob",
    "AppWrapper",
})  # fmt: skip

Objects = Mapping[str, Mapping[str, Any]]
"""By uid."""


class Effect(NamedTuple):
    """Of putting an older state in the place of the present one."""

    ended: tuple[str, ...]  # processes that run now and end
    again: tuple[str, ...]  # jobs that ended since, and may run again
    lost: tuple[str, ...]  # jobs made since
    back: tuple[str, ...]  # jobs deleted since, which had not ended

    def lines(self, home: Home) -> list[str]:
        """For people to decide on."""
        found = []
        if self.ended:
            one = len(self.ended) == 1
            count = "1 pod that runs" if one else f"{len(self.ended)} pods that run"
            found.append(
                f"{count} on this machine now will be ended, as the backup does not know them: {_list(self.ended)}"
            )
        if self.again:
            found.append(f"Ended since, and may run again: {_list(self.again)}")
        if self.back:
            found.append(f"Deleted since, and back to run again: {_list(self.back)}")
        if self.lost:
            found.append(f"Made since, and lost: {_list(self.lost)}")
        if self.ended or self.lost:
            found.append(f"The logs of pods the backup does not know are kept in {home.kept_logs}")
        return found


def effect(home: Home, cluster: str, backup: Path) -> Effect:
    """What restoring a store does to the jobs of a cluster; nothing where the present store cannot be read."""
    try:
        now = objects(home.store(cluster)) if home.store(cluster).exists() else {}
    except StoreError:
        now = {}
    then = objects(backup)
    pods = unknown(home, cluster, then)
    return Effect(
        tuple(_where(now.get(pod.name), pod.name) for pod in pods if _runs(pod)),
        tuple(_where(one, uid) for uid, one in now.items() if uid in then and _ended(one) and not _ended(then[uid])),
        tuple(_where(one, uid) for uid, one in now.items() if uid not in then and not _is_owned(one)),
        tuple(
            _where(one, uid)
            for uid, one in then.items()
            if now and uid not in now and not _is_owned(one) and not _ended(one)
        ),
    )


def objects(store: Path) -> Objects:
    """The jobs and pods of a store file: all that has a pod template, and all pods."""
    return {one["metadata"]["uid"]: one for one in _jobs(row.raw for row in contents(store).live.values())}


def unknown(home: Home, cluster: str, known: Iterable[str]) -> list[Path]:
    """The folders of pods of this machine that are not among the known ones."""
    pods = set(known)
    folder = home.pods(cluster)
    return sorted(one for one in folder.iterdir() if one.name not in pods) if folder.is_dir() else []


def keep_logs(home: Home, pods: Iterable[Path], names: Objects) -> list[Path]:
    """Links what pods wrote into a folder that stays. The files stay where they are as well, because what still runs
    writes to them and is found by them."""
    kept: list[Path] = []
    for pod in pods:
        metadata = names.get(pod.name, {}).get("metadata") or {}
        parts = (metadata.get("namespace"), metadata.get("name"), pod.name)
        target = home.kept_logs / "_".join(part for part in parts if part)
        for log in sorted(pod.glob("*/log*")):
            if log.is_symlink() or not log.is_file():
                continue
            target.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.link(log, target / f"{log.parent.name}.{log.name}")
            if not kept or kept[-1] != target:
                kept.append(target)
    return kept


def _jobs(rows: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for raw in rows:
        obj = msgspec.json.decode(raw)
        group = str(obj.get("apiVersion") or "").rpartition("/")[0]
        is_pod = obj.get("kind") == "Pod" and not group
        makes_pods = group not in ("", "apps", "kueue.x-k8s.io") and "status" in obj and "spec" in obj
        if is_pod or (makes_pods and obj.get("kind") in _JOBS):
            yield obj


def _ended(obj: Mapping[str, Any]) -> bool:
    status = obj.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return True
    return any(one.get("type") in _ENDS and one.get("status") == "True" for one in status.get("conditions") or ())


def _is_owned(obj: Mapping[str, Any]) -> bool:
    return bool(obj["metadata"].get("ownerReferences"))


def _where(obj: Mapping[str, Any] | None, uid: str) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}" if obj else uid


def _runs(pod: Path) -> bool:
    return any(Process(container).pid() for container in pod.iterdir()) if pod.is_dir() else False


def _list(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(sorted(names)[:_NAMED]) + more
