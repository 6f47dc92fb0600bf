"""Files that lie in each other's way in one volume: the last one written would win, or nothing be mounted at all.

What else a pod is warned of is `pod_warnings`'s.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from gpuaas.api.metadata import View
from gpuaas.base.fielderrors import show

_MOST_TOLD: Final = 100  # pairs of one volume

File = tuple[str, str]
"""(path, where it comes from)"""


def volume_warnings(volume: View) -> list[str]:
    name, found = show(volume.get("name", "")), []
    for title, items in _own_files(volume):
        found += [f"volume {name} ({title}): {text}" for text in _overlaps((path, "") for path in items)]
    projected = volume.get("projected")
    if projected is not None:
        sources = projected.get("sources") or ()
        empty = sum(not source for source in sources)
        found += [f"volume {name} (Projected) has no sources provided"] * min(empty, _MOST_TOLD)
        files = (file for source in sources for file in _projected_files(source))
        found += [f"volume {name} (Projected): {text}" for text in _overlaps(files)]
    return found


def _own_files(volume: View) -> Iterator[tuple[str, Iterable[str]]]:
    for kind, title, name in (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")):
        source = volume.get(kind)
        if source is not None:
            yield f"{title} {show(source.get(name, ''))}", _paths(source)
    if volume.get("downwardAPI") is not None:
        yield "DownwardAPI", _paths(volume["downwardAPI"])


def _projected_files(source: View) -> Iterable[File]:
    for kind, title in (("configMap", "ConfigMap"), ("secret", "Secret")):
        part = source.get(kind)
        if part is not None and part.get("items"):
            return [(path, f"{title} {show(part.get('name', ''))}") for path in _paths(part)]
    if (source.get("downwardAPI") or {}).get("items"):
        return [(path, "DownwardAPI") for path in _paths(source["downwardAPI"])]
    token = source.get("serviceAccountToken")
    return [] if token is None else [(token.get("path", ""), "ServiceAccountToken")]


def _paths(source: Any) -> list[str]:
    return [item.get("path", "") for item in source.get("items") or ()]


def _overlaps(files: Iterable[File]) -> list[str]:
    """Each pair of files of which one is, or would lie in, the other. In the order of their paths those in a folder
    follow it, so that one look at each file finds the folders it lies in."""
    named = [(path.rstrip("/"), source) for path, source in files]
    paths = sorted((f"{path}/", index) for index, (path, _) in enumerate(named) if path)
    around: list[tuple[str, int]] = []
    pairs: list[tuple[int, int]] = []
    for path, index in paths:
        while around and not path.startswith(around[-1][0]):
            around.pop()
        pairs += [(max(index, other), min(index, other)) for _, other in around]
        if len(pairs) >= _MOST_TOLD:
            break
        around.append((path, index))
    return [f"overlapping paths: {_said(named[one])} with {_said(named[two])}" for one, two in sorted(pairs)]


def _said(file: File) -> str:
    path, source = file
    return f"{show(path)} ({source})" if source else show(path)
