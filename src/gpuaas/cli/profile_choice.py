"""Which hardware profile a person means, and where profiles are looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from gpuaas.client.protocol import Resource

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object

PROFILES: Final = Resource("infrastructure.opendatahub.io", "v1", "hardwareprofiles", True, "HardwareProfile")
NAME: Final = "opendatahub.io/hardware-profile-name"
NAMESPACE: Final = "opendatahub.io/hardware-profile-namespace"
SHARED: Final = ("redhat-ods-applications", "opendatahub")
"""Whose profiles everybody may use."""


async def listed(client: HttpClient, namespace: str) -> list[Object]:
    """The profiles of the namespace and those that all share, as far as one may see them."""
    from gpuaas.base.errors import ApiError

    found: list[Object] = []
    for place in dict.fromkeys((namespace, *SHARED)):
        try:
            found += (await client.list(PROFILES, place)).items
        except ApiError as error:
            if error.code not in (403, 404):
                raise
    return found


async def chosen(client: HttpClient, namespace: str, wanted: str) -> Object:
    """The profile with this name or display name."""
    from gpuaas.profiles import offered

    there = await listed(client, namespace)
    found = [each for each in there if offered.name_of(each) == wanted]
    found = found or [each for each in there if offered.title(each).lower() == wanted.lower()]
    if len({offered.name_of(each) for each in found}) == 1:
        return found[0]
    if found:
        names = ", ".join(offered.name_of(each) for each in found)
        raise click.ClickException(f'several profiles are called "{wanted}": choose one of {names}')
    known = (
        ", ".join(offered.name_of(each) for each in offered.ordered(there)) or "none (make one: gpuaas profiles create)"
    )
    raise click.ClickException(f'there is no hardware profile "{wanted}" for namespace {namespace}; there are: {known}')


def naming(profile: Object) -> dict[str, Any]:
    metadata = profile["metadata"]
    return {NAME: metadata["name"], NAMESPACE: metadata["namespace"]}


def applied(profile: Object, kind: tuple[str, str], obj: Object, namespace: str) -> Object:
    """The manifest with what the profile gives, so that it is the same on a cluster without such a webhook. `kind`: group
    and plural."""
    from gpuaas.cli.context import WrongOption
    from gpuaas.profiles import admission
    from gpuaas.profiles.workloads import WORKLOADS

    place = profile["metadata"]["namespace"]
    known = admission.Profiles(lambda where: [profile] if where == place else [], ())
    answer = admission.review(WORKLOADS[kind], obj, None, known, namespace)
    if answer.refusal:
        raise click.ClickException(answer.refusal)
    if answer.errors:
        raise WrongOption("; ".join(map(str, answer.errors)))
    return dict(answer.object)


def queue_of(profile: Object) -> str:
    from gpuaas.profiles import inject

    return inject.queue_of(profile)
