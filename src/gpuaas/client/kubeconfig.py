"""Kubeconfig files: which server, which certificates, who we are.

Several files (`KUBECONFIG=a:b`) are merged as kubectl does: the first that names an entry wins, relative paths are
relative to the file that has them. `Kubeconfig.access` resolves a context to everything a connection needs; secrets
that live elsewhere (token files, exec plugins) are read later, by module credentials. `add_context` writes.
"""

import base64
import binascii
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpuaas.machinery.yamltext import YamlError, load_yaml

_FILE = "@file"  # beside the keys of an entry: where it was read


class KubeconfigError(Exception):
    """Something in a kubeconfig does not hold together; the message names file, entry and what would be right."""


@dataclass(frozen=True, slots=True)
class Access:
    """One resolved context."""

    context: str
    server: str
    namespace: str = "default"
    certificate_authority: str = ""  # PEM
    insecure: bool = False
    server_name: str = ""  # the name to expect in the certificate, where it is not the URL's
    client_certificate: str = ""  # PEM
    client_key: str = ""  # PEM
    token: str = ""
    token_file: Path | None = None
    username: str = ""
    password: str = ""
    exec: Mapping[str, Any] | None = None
    impersonate: Mapping[str, Any] = field(default_factory=dict)  # as, as-groups, as-uid


@dataclass(slots=True)
class Kubeconfig:
    clusters: dict[str, dict[str, Any]] = field(default_factory=dict)
    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    contexts: dict[str, dict[str, Any]] = field(default_factory=dict)
    current_context: str = ""
    files: tuple[Path, ...] = ()

    def access(self, context: str = "") -> Access:
        """What the context (the current one when none is named) leads to."""
        name = context or self.current_context
        if not name:
            raise KubeconfigError(f"no current context in {self._where()}: name one with --context")
        if name not in self.contexts:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise KubeconfigError(f'context "{name}" does not exist in {self._where()}; there are: {known}')
        entry = self.contexts[name]
        cluster = self._part(self.clusters, "cluster", entry.get("cluster", ""), name)
        user = self._part(self.users, "user", entry.get("user", ""), name) if entry.get("user") else {}
        server = cluster.get("server") or ""
        if not server.startswith(("https://", "http://")):
            raise KubeconfigError(f'cluster "{entry.get("cluster")}" has server "{server}": it must be an https:// URL')
        token_file = user.get("tokenFile")
        return Access(
            context=name,
            server=server.rstrip("/"),
            namespace=entry.get("namespace") or "default",
            certificate_authority=_pem(cluster, "certificate-authority"),
            insecure=bool(cluster.get("insecure-skip-tls-verify")),
            server_name=cluster.get("tls-server-name") or "",
            client_certificate=_pem(user, "client-certificate"),
            client_key=_pem(user, "client-key"),
            token=user.get("token") or "",
            token_file=_relative(user, token_file) if token_file else None,
            username=user.get("username") or "",
            password=user.get("password") or "",
            exec=user.get("exec"),
            impersonate={key: user[key] for key in ("as", "as-groups", "as-uid") if user.get(key)},
        )

    def _part(self, parts: Mapping[str, dict[str, Any]], kind: str, name: str, context: str) -> dict[str, Any]:
        if name not in parts:
            raise KubeconfigError(f'context "{context}" names {kind} "{name}", which {self._where()} does not have')
        return parts[name]

    def _where(self) -> str:
        return ", ".join(str(path) for path in self.files) or "the kubeconfig"


def default_paths() -> list[Path]:
    """`$KUBECONFIG` (a list), else `~/.kube/config`."""
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return named or [Path.home() / ".kube" / "config"]


def load(paths: Sequence[Path] | None = None) -> Kubeconfig:
    """Read and merge; a file that does not exist counts as empty unless it is the only one."""
    files = list(paths) if paths is not None else default_paths()
    merged = Kubeconfig(files=tuple(files))
    if len(files) == 1 and not files[0].exists():
        raise KubeconfigError(f"there is no kubeconfig at {files[0]}")
    for file in files:
        if file.exists():
            _merge(merged, _read(file), file)
    return merged


def from_document(content: Mapping[str, Any], origin: Path) -> Kubeconfig:
    """One that has been read already, from a Secret say; `origin` names it in messages, and relative paths start there."""
    merged = Kubeconfig(files=(origin,))
    _merge(merged, content, origin)
    return merged


def add_context(
    path: Path,
    name: str,
    *,
    cluster: Mapping[str, Any],
    user: Mapping[str, Any],
    namespace: str = "",
    make_current: bool = False,
) -> None:
    """Put a context with its cluster and user, all under one name, into a file, keeping everything else in it."""
    content = _read(path) if path.exists() else {}
    content.setdefault("apiVersion", "v1")
    content.setdefault("kind", "Config")
    content.setdefault("preferences", {})
    context = {"cluster": name, "user": name} | ({"namespace": namespace} if namespace else {})
    for section, key, value in (
        ("clusters", "cluster", dict(cluster)),
        ("users", "user", dict(user)),
        ("contexts", "context", context),
    ):
        others = [entry for entry in content.get(section) or [] if entry.get("name") != name]
        content[section] = [*others, {"name": name, key: value}]
    if make_current or not content.get("current-context"):
        content["current-context"] = name
    _write(path, yaml.safe_dump(content, sort_keys=False))


def remove_context(path: Path, name: str) -> None:
    """Take a context and the cluster and user under the same name out of a file."""
    content = _read(path)
    for section in ("clusters", "users", "contexts"):
        content[section] = [entry for entry in content.get(section) or [] if entry.get("name") != name]
    if content.get("current-context") == name:
        left = content["contexts"]
        content["current-context"] = left[0]["name"] if left else ""
    _write(path, yaml.safe_dump(content, sort_keys=False))


def encode(pem: str) -> str:
    """PEM as the `*-data` fields carry it."""
    return base64.b64encode(pem.encode()).decode()


def _read(file: Path) -> dict[str, Any]:
    try:
        content = load_yaml(file.read_text())
    except (YamlError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{file} is not YAML: {error}") from error
    except OSError as error:
        raise KubeconfigError(f"the kubeconfig {file} cannot be read: {error.strerror}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise KubeconfigError(f"{file} is not a kubeconfig: it must be a map with clusters, users and contexts")
    return content


def _merge(into: Kubeconfig, content: Mapping[str, Any], file: Path) -> None:
    for section, key in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
        known: dict[str, dict[str, Any]] = getattr(into, section)
        for entry in content.get(section) or []:
            if entry.get("name") not in known:
                known[entry.get("name")] = {**(entry.get(key) or {}), _FILE: file}
    into.current_context = into.current_context or content.get("current-context") or ""


def _pem(entry: Mapping[str, Any], field_name: str) -> str:
    data = entry.get(f"{field_name}-data")
    if data:
        try:
            return base64.b64decode(data, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise KubeconfigError(f"{field_name}-data in {entry[_FILE]} is not base64 of a PEM file") from error
    path = entry.get(field_name)
    if not path:
        return ""
    file = _relative(entry, path)
    try:
        return file.read_text()
    except OSError as error:
        raise KubeconfigError(f"cannot read {field_name} {file}: {error.strerror}") from error


def _relative(entry: Mapping[str, Any], path: str) -> Path:
    return Path(entry[_FILE]).parent / path


def _write(path: Path, text: str) -> None:
    """Written whole or not at all, readable only by this user."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(temporary).replace(path)  # mkstemp made it 0600
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
