"""Files that lie in each other's way in one volume: the last one written would win, or nothing be mounted at all.

What else a pod is warned of is `pod_warnings`'s.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from gpuaas.api.metadata import View
from gpuaas.base.fielderrors import show

File = tuple[str, str]
"""(path, where it comes from)"""


def volume_warnings(volume: View) -> list[str]:
    name, found = show(volume.get("name", "")), []
    for title, items in _own_files(volume):
        found += [f"volume {name} ({title}): {text}" for text in _overlaps((path, "") for path in items)]
    projected = volume.get("projected")
    if projected is not None:
        sources = projected.get("sources") or ()
        found += [f"volume {name} (Projected) has no sources provided" for source in sources if not source]
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
    found: list[str] = []
    seen: list[File] = []
    for path, source in files:
        file = (path.rstrip("/"), source)
        if file[0]:
            found += [
                f"overlapping paths: {_said(file)} with {_said(other)}" for other in seen if _collide(file, other)
            ]
            seen.append(file)
    return found


def _collide(file: File, other: File) -> bool:
    one, two = f"{file[0]}/", f"{other[0]}/"
    return one.startswith(two) or two.startswith(one)


def _said(file: File) -> str:
    path, source = file
    return f"{show(path)} ({source})" if source else show(path)
