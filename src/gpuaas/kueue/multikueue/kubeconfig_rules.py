"""Which kubeconfigs of workers are accepted: those that carry everything inline and trust nothing blindly.

A kubeconfig comes from a Secret, so it must not make the hub read its own files, run programs or skip the check of the
server's certificate. The rules cover all users and clusters of the file, in upstream's order and words.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from gpuaas.base.names import is_dns1123_subdomain
from gpuaas.machinery.yamltext import YamlError, load_yaml

MOST_BYTES = 1 << 16


class BadKubeConfig(Exception):
    """There is none, or it cannot be read."""

    reason = "BadKubeConfig"


class InsecureKubeConfig(BadKubeConfig):
    reason = "InsecureKubeConfig"


def read_kubeconfig(data: bytes, *, own_files: bool = False) -> Mapping[str, Any]:
    """The document of an acceptable kubeconfig. `own_files`: it lies on the hub's disk, and may name files beside it."""
    if len(data) > MOST_BYTES:
        raise InsecureKubeConfig(f"failed to parse kubeconfig: {len(data)} bytes, at most {MOST_BYTES} are allowed")
    try:
        found = load_yaml(data.decode())
    except (YamlError, UnicodeDecodeError) as error:
        raise InsecureKubeConfig(f"failed to parse kubeconfig: {error}") from None
    if not isinstance(found, dict):
        raise InsecureKubeConfig("failed to parse kubeconfig: it must be a map with clusters, users and contexts")
    users, clusters = _entries(found, "users", "user"), _entries(found, "clusters", "cluster")
    for user in users.values():
        if user.get("tokenFile"):
            raise InsecureKubeConfig("tokenFile is not allowed")
    for name, cluster in clusters.items():
        _check_cluster(name, cluster)
    for name, user in users.items():
        _check_user(name, user, own_files=own_files)
    return found


def _entries(document: Mapping[str, Any], section: str, key: str) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    listed = document.get(section) or []
    if not isinstance(listed, list):
        raise InsecureKubeConfig(f"failed to parse kubeconfig: {section} must be a list")
    for each in listed:
        inner = each.get(key) if isinstance(each, dict) else None
        if not isinstance(each, dict) or not isinstance(inner or {}, dict):
            raise InsecureKubeConfig(f"failed to parse kubeconfig: {section} must be a list of {{name, {key}}}")
        found[str(each.get("name"))] = inner or {}
    return found


def _check_cluster(name: str, cluster: Mapping[str, Any]) -> None:
    if cluster.get("insecure-skip-tls-verify"):
        raise InsecureKubeConfig(f"insecure TLS verification is not allowed for cluster {name}")
    if cluster.get("certificate-authority"):
        words = "certificate-authority file paths are not allowed, use certificate-authority-data for cluster"
        raise InsecureKubeConfig(f"{words} {name}")
    server = cluster.get("server")
    if not server or not isinstance(server, str):
        raise InsecureKubeConfig(f"server URL is required for cluster {name}")
    if not _is_host(server):
        raise InsecureKubeConfig("untrusted server endpoint")


def _check_user(name: str, user: Mapping[str, Any], *, own_files: bool) -> None:
    if user.get("username") or user.get("password"):
        raise InsecureKubeConfig("basic auth is not allowed")
    if user.get("exec"):
        raise InsecureKubeConfig("exec plugins are not allowed")
    if user.get("auth-provider"):
        raise InsecureKubeConfig("auth providers are not allowed")
    for field in ("client-certificate", "client-key"):
        if user.get(field) and not own_files:
            raise InsecureKubeConfig(f"{field} file paths are not allowed, use {field}-data for user {name}")


def _is_host(server: str) -> bool:
    """Whether the URL names a server by an IP address or a DNS name."""
    try:
        host = urlsplit(server).hostname or ""
    except ValueError:
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return not is_dns1123_subdomain(host)
    return True
