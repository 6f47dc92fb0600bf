"""Kubeconfigs in Secrets, read and written.

One that comes in a Secret may not read files of the hub or start programs there. One that is written has a cluster, a
context and a user, everything inline: what MultiKueue's validation accepts.
"""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from gpuaas.client.kubeconfig import Access, Kubeconfig, KubeconfigError, from_document
from gpuaas.machinery.yamltext import YamlError, load_yaml

_LONGEST: Final = 1 << 20  # characters of a kubeconfig: as much as a Secret holds
_ELSEWHERE: Final = {
    "clusters": ("cluster", ("certificate-authority",)),
    "users": ("user", ("client-certificate", "client-key", "tokenFile", "exec", "auth-provider")),
}


def decoded(secret: Mapping[str, Any], key: str) -> str:
    """A value of a Secret as text; empty where there is none or it is none."""
    try:
        return base64.b64decode(str((secret.get("data") or {}).get(key) or ""), validate=True).decode()
    except ValueError:
        return ""


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def kubeconfig(cluster: str, server: str, authority: str, user: str, token: str) -> str:
    """One cluster, one context, one user, everything inline: what MultiKueue's validation accepts. JSON is YAML, and
    the same text for the same values."""
    entry = {"server": server, **({"certificate-authority-data": encoded(authority)} if authority else {})}
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": entry}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "current-context": cluster,
    }
    return msgspec.json.encode(whole).decode()


def read_kubeconfig(text: str, source: str) -> Access:
    """What the current context of a kubeconfig leads to; raises KubeconfigError. `source` names it in messages."""
    if not text:
        raise KubeconfigError(f'{source} has no key "kubeconfig"')
    try:
        content = load_yaml(text[:_LONGEST])
        if not isinstance(content, dict):
            raise KubeconfigError(f"{source} is not a kubeconfig: it must be a map with clusters, users and contexts")
        _refuse_references(content, source)
        found: Kubeconfig = from_document(content, Path(source))
        return found.access()
    except (YamlError, AttributeError, TypeError) as error:
        raise KubeconfigError(f"{source} is not a kubeconfig: {error}") from None


def _refuse_references(content: Any, source: str) -> None:
    for section, (key, fields) in _ELSEWHERE.items():
        for entry in content.get(section) or ():
            for field in fields:
                if (entry.get(key) or {}).get(field):
                    raise KubeconfigError(
                        f'{source}: {key} "{entry.get("name")}" has {field}; a kubeconfig in a Secret must carry its data'
                    )
