"""Which real programs the tests use, at which versions, and how each is built into the cache.

A part is one row of `PARTS`; a later one is one more row, with a recipe of its own if it is built neither from a
module of ours under `modules/` nor inside its own module. Binaries live outside the repository, keyed by version; a file
that is there is complete, because a build is renamed into place. The manifests that belong to a part (definitions,
webhooks) are read where Go keeps its module, and never copied.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

KUBERNETES = "v1.36.3"
OLDEST_KUBECTL = "v1.30.14"
KUEUE = "v0.19.2"
KWOK = "v0.8.0"
KUBERAY = "v1.6.2"  # the one Kueue is made with
MODULES = Path(__file__).parent / "modules"


class PartMissing(Exception):
    """A real program is needed and not in the cache; the message says how to get it."""


@dataclass(frozen=True)
class Part:
    """One real program: `name` is its file in the cache's folder for `version`; `module` where it is built by itself."""

    name: str
    version: str
    package: str
    recipe: Callable[[Part, Path], None]
    module: str = ""

    @property
    def path(self) -> Path:
        return cache() / self.version / self.name

    @property
    def cached(self) -> bool:
        return self.path.exists()


def from_our_module(part: Part, output: Path) -> None:
    """Build a command out of `modules/VERSION`, whose go.mod and go.sum pin everything it is made from."""
    major, minor, _patch = part.version.removeprefix("v").split(".")
    variables = {"gitVersion": part.version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    # Unset, the programs call themselves v0.0.0 and kubectl refuses to compare versions.
    stamps = [f"-X k8s.io/component-base/version.{name}={value}" for name, value in variables.items()]
    flags = " ".join(["-s", "-w", *stamps])
    module = MODULES / part.version
    run_go("build", "-C", str(module), "-mod=readonly", "-trimpath", "-ldflags", flags, "-o", str(output), part.package)


def inside_its_module(part: Part, output: Path) -> None:
    """Build a command where Go keeps its module, so that the module's own go.sum pins what it is made from."""
    folder = module_folder(part.module, part.version)
    run_go("build", "-C", str(folder), "-trimpath", "-ldflags", "-s -w", "-o", str(output), part.package)


PARTS: tuple[Part, ...] = (
    Part("etcd", KUBERNETES, "go.etcd.io/etcd/server/v3", from_our_module),
    Part("kubectl", KUBERNETES, "k8s.io/kubernetes/cmd/kubectl", from_our_module),
    Part("kube-apiserver", KUBERNETES, "k8s.io/kubernetes/cmd/kube-apiserver", from_our_module),
    Part("kube-controller-manager", KUBERNETES, "k8s.io/kubernetes/cmd/kube-controller-manager", from_our_module),
    Part("kube-scheduler", KUBERNETES, "k8s.io/kubernetes/cmd/kube-scheduler", from_our_module),
    Part("kubectl", OLDEST_KUBECTL, "k8s.io/kubernetes/cmd/kubectl", from_our_module),
    Part("kwok", KWOK, "./cmd/kwok", inside_its_module, "sigs.k8s.io/kwok"),
    Part("kueue", KUEUE, "./cmd/kueue", inside_its_module, "sigs.k8s.io/kueue"),
    Part("kueuectl", KUEUE, "./cmd/kueuectl", inside_its_module, "sigs.k8s.io/kueue"),
    Part("kuberay-operator", KUBERAY, ".", inside_its_module, "github.com/ray-project/kuberay/ray-operator"),
)


def cache() -> Path:
    return Path(os.environ.get("GPUAAS_REAL_CACHE", "~/.cache/gpuaas-real")).expanduser()


def binary(name: str, version: str = "") -> Path:
    """The program's file (the newest, unless a version is named), or `PartMissing` with the command that makes it."""
    part = _part(name, version)
    if not part.cached:
        raise PartMissing(f"{name} {part.version} is not in {cache()}: run `python -m tests.real build` (needs Go)")
    return part.path


def manifests(name: str) -> Path:
    """The folder of the module that a part is built from."""
    part = _part(name)
    return module_folder(part.module, part.version)


def _part(name: str, version: str = "") -> Part:
    return next(part for part in PARTS if part.name == name and version in ("", part.version))


@functools.cache
def module_folder(module: str, version: str) -> Path:
    said = subprocess.run(
        [_go(), "mod", "download", "-json", f"{module}@{version}"], capture_output=True, text=True, check=False, cwd="/"
    )
    found = json.loads(said.stdout or "{}")
    if "Dir" not in found:
        raise PartMissing(f"{module} {version} cannot be had: {found.get('Error') or said.stderr}")
    return Path(found["Dir"])


def missing(parts: Iterable[Part] = PARTS) -> list[Part]:
    return [part for part in parts if not part.cached]


def build(part: Part) -> None:
    part.path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = part.path.with_suffix(".building")
    part.recipe(part, unfinished)
    unfinished.rename(part.path)


def run_go(*arguments: str) -> None:
    subprocess.run([_go(), *arguments], check=True)


def _go() -> str:
    go = shutil.which("go")
    if go is None:
        raise PartMissing("no `go` on the PATH: the real parts are built from source (Go 1.26 or later)")
    return go
