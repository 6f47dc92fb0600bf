"""Kueue's own configuration as a client can read it from a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuaas.base.errors import ApiError
from gpuaas.client.kueue import CONFIGURATION_KEY, CONFIGURATION_NAME, CONFIGURATION_NAMESPACE, KUEUES
from gpuaas.client.resources import CONFIG_MAPS
from gpuaas.kueue.configuration.file import ConfigurationError, read_configuration
from gpuaas.kueue.configuration.operator import from_kueue_object
from gpuaas.kueue.configuration.settings import Configuration

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object, Resource


async def configuration(client: HttpClient) -> Configuration | None:
    """From the ConfigMap Kueue is installed with and OpenShift's object; None where they cannot be seen."""
    kept = await _get(client, CONFIG_MAPS, CONFIGURATION_NAME, CONFIGURATION_NAMESPACE)
    if kept is None:
        return None
    try:
        found = read_configuration(str((kept.get("data") or {}).get(CONFIGURATION_KEY, ""))).configuration
        operator = await _get(client, KUEUES, "cluster", "")
        unmanaged = ((operator or {}).get("spec") or {}).get("managementState") in ("Unmanaged", "Removed")
        if operator is not None and not unmanaged:
            return from_kueue_object(operator, found).configuration
    except ConfigurationError:
        return None
    return found


async def _get(client: HttpClient, resource: Resource, name: str, namespace: str) -> Object | None:
    try:
        return await client.get(resource, name, namespace)
    except ApiError as error:
        if error.code in (403, 404):
            return None
        raise
