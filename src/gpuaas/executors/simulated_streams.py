"""exec on simulated nodes: what can be answered without running anything is answered, and the rest is refused in words.

`nvidia-smi` and `nvidia-smi -L` print the devices the container was given, `env` and `printenv` its variables, `hostname`
the pod's name, and `cat` what config maps, secrets and the pod itself put into files. Nothing is executed.
"""

from __future__ import annotations

import asyncio
import posixpath
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from gpuaas.base.errors import ApiError, NotImplementedHere
from gpuaas.client.protocol import Client
from gpuaas.client.resources import CONFIG_MAPS, SECRETS
from gpuaas.devices.holding import held_by, smi, variables
from gpuaas.executors.environment import Environment, Missing, environment_of
from gpuaas.executors.limits import Budget, LimitExceeded
from gpuaas.executors.simulated_logs import SimulatedLines
from gpuaas.executors.streams import FromNow, Written

View = Mapping[str, Any]
_KNOWN: Final = "nvidia-smi, nvidia-smi -L, env, printenv, hostname, echo, true, false and cat of mounted files"
_NOT_FOUND: Final = 127
_PIECE: Final = 32 * 1024


class SimulatedStreams:
    def __init__(self, client: Client, lines: SimulatedLines) -> None:
        self._client = client
        self._lines = lines

    async def exec(self, pod: View, container: str, words: Sequence[str], *, tty: bool, stdin: bool) -> Written:
        spec = next(each for each in pod["spec"]["containers"] if each["name"] == container)
        out, errors, code = await self._answer(pod, spec, list(words))
        if tty:
            out, errors = (out + errors).replace("\n", "\r\n"), ""
        return Written(_pieces(out.encode("utf-8", "replace")), errors.encode("utf-8", "replace"), code)

    async def attach(self, pod: View, container: str, *, tty: bool, stdin: bool) -> Written:
        return Written(self._lines.read(pod, container, FromNow(container)))

    async def dial(self, pod: View, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise NotImplementedHere(
            f'pod "{pod["metadata"]["name"]}" runs on a simulated node, where no process listens on any port'
        )

    async def _answer(self, pod: View, container: View, words: list[str]) -> tuple[str, str, int]:
        """Output, errors and exit code."""
        match [posixpath.basename(words[0]), *words[1:]]:
            case ["nvidia-smi", *arguments]:
                lines = smi(held_by(pod), container["name"], arguments)
                if lines is not None:
                    return "".join(f"{line}\n" for line in lines), "", 0
            case ["env" | "printenv"]:
                return await self._variables(pod, container)
            case ["printenv", name]:
                out, errors, code = await self._variables(pod, container)
                found = [line.partition("=")[2] for line in out.splitlines() if line.startswith(f"{name}=")]
                return ("", errors, code or 1) if not found else (f"{found[-1]}\n", "", 0)
            case ["hostname"]:
                return f"{hostname(pod)}\n", "", 0
            case ["echo", *rest]:
                return f"{' '.join(rest)}\n", "", 0
            case ["true"]:
                return "", "", 0
            case ["false"]:
                return "", "", 1
            case ["cat", *paths] if paths and not any(path.startswith("-") for path in paths):
                return await self._files(pod, container, paths)
        return (
            "",
            f"gpuaas: {words[0]}: this pod runs on a simulated node, where no process is started; "
            f"what can be answered here: {_KNOWN}\n",
            _NOT_FOUND,
        )

    async def _variables(self, pod: View, container: View) -> tuple[str, str, int]:
        try:
            made: Environment = await environment_of(pod, container, self._lookup(pod), {}, Budget())
            for name, value in variables(held_by(pod), container["name"]).items():
                made.set(name, value)
        except (Missing, LimitExceeded) as error:
            return "", f"gpuaas: {error}\n", 1
        found = {"HOSTNAME": hostname(pod), **made.values}
        return "".join(f"{name}={value}\n" for name, value in found.items()), "", 0

    def _lookup(self, pod: View) -> Any:
        namespace = pod["metadata"]["namespace"]

        async def lookup(kind: str, name: str) -> View:
            found = await self._client.get(CONFIG_MAPS if kind == "ConfigMap" else SECRETS, name, namespace)
            data = found.get("data") or {}
            if kind == "ConfigMap":
                return data
            return {key: b64decode(value).decode(errors="replace") for key, value in data.items()}

        return lookup

    async def _files(self, pod: View, container: View, paths: Sequence[str]) -> tuple[str, str, int]:
        out, errors = "", ""
        for path in paths:
            found = await self._file(pod, container, posixpath.normpath(path))
            if found is None:
                errors += f"cat: {path}: No such file or directory (simulated: only mounted config maps and secrets are read)\n"
            else:
                out += found
        return out, errors, 1 if errors else 0

    async def _file(self, pod: View, container: View, path: str) -> str | None:
        for mount in container.get("volumeMounts") or ():
            root = posixpath.normpath(mount["mountPath"])
            if mount.get("subPath"):
                if path == root:
                    return await self._in_volume(pod, mount["name"], mount["subPath"])
            elif path.startswith(root.rstrip("/") + "/"):
                return await self._in_volume(pod, mount["name"], path[len(root.rstrip("/")) + 1 :])
        return None

    async def _in_volume(self, pod: View, volume: str, name: str) -> str | None:
        spec: View = next((each for each in pod["spec"].get("volumes") or () if each["name"] == volume), {})
        sources = (("ConfigMap", spec.get("configMap"), "name"), ("Secret", spec.get("secret"), "secretName"))
        for kind, source, key in sources:
            if source is None:
                continue
            try:
                data = await self._lookup(pod)(kind, source.get(key) or "")
            except ApiError:
                return None
            items = source.get("items")
            if items:
                name = next((each["key"] for each in items if each["path"] == name), "")
            return str(data[name]) if name in data else None
        return None


def hostname(pod: View) -> str:
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63]


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), _PIECE):
        yield data[start : start + _PIECE]
