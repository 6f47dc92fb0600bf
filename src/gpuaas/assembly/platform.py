"""Platforms: the objects that manifests written for a product expect in a cluster before they are applied.

`gpuaas up --platform rhoai` keeps the name in the home, and a fleet file may name one; the objects are made at each start
where they are missing. Queues of the platform are made only in a cluster without any ClusterQueue, because their quota is
all that the nodes have and would be given away twice.
"""

from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

Object = Mapping[str, Any]
NONE: Final = "none"
_FOLDER: Final = "platforms"
_QUEUES: Final = ("ResourceFlavor", "ClusterQueue")


def builtin_platforms() -> list[str]:
    folder = resources.files("gpuaas.assembly") / _FOLDER
    return sorted(one.name.removesuffix(".yaml") for one in folder.iterdir() if one.name.endswith(".yaml"))


def check_platform(name: str) -> None:
    """Raises ValueError for a name of no platform."""
    known = builtin_platforms()
    if name not in known:
        raise ValueError(f'"{name[:40]}" is none of {", ".join(known)}; or {NONE}')


def platform_objects(name: str, *, has_queues: bool) -> list[Object]:
    """What the platform begins with, in the order in which it is made."""
    from gpuaas.machinery.yamltext import load_yaml_documents

    check_platform(name)
    text = (resources.files("gpuaas.assembly") / _FOLDER / f"{name}.yaml").read_text()
    objects: list[Object] = [one for one in load_yaml_documents(text) if isinstance(one, dict)]
    return [one for one in objects if not has_queues or one["kind"] not in _QUEUES]
