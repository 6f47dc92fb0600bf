"""`gpuaas size`: how much GPU memory a model needs, with the arithmetic, and the smallest slice, card or profile it fits."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gpuaas.cli.context import Target, WrongOption
from gpuaas.cli.show import ALL_OF_IT, how_to_print

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.profiles.sizing import Need, Shape

_CONFIG_LIMIT: Final = 1024 * 1024  # bytes of a config.json
_MIB: Final = 1024**2
_CARDS: Final = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Fit:
    what: str
    resource: str
    count: int
    memory_mib: int  # of all of them

    def shown(self) -> dict[str, Any]:
        return {"what": self.what, "resource": self.resource, "count": self.count, "memoryMiB": self.memory_mib}


@click.command()
@click.argument("config", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--params", default="", help="Parameters of the model: 8B, 350M. Not needed with a config.json.")
@click.option(
    "--dtype", default="", help="fp32, fp16, bf16, fp8, int8, fp4 or int4.  [default: the config's, else fp16]"
)
@click.option("--cache-dtype", default="fp16", show_default=True, help="Of keys and values.")
@click.option("--context", default="8k", show_default=True, help="Tokens of one sequence: 32k is 32 x 1024.")
@click.option("--sequences", type=click.IntRange(1, 100_000), default=1, show_default=True, help="Sequences at once.")
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="The cluster whose GPUs count.  [default: $KUBECONFIG]"
)
@how_to_print(*ALL_OF_IT)
def size(
    kubeconfig: Path | None, output: str, config: Path | None, params: str, dtype: str, context: str, **more: Any
) -> None:
    """GPU memory of a model:  gpuaas size --params 8B --dtype fp8 --context 32k --sequences 16  (or: gpuaas size config.json)"""
    from gpuaas.profiles import sizing

    for option, name in (("--dtype", dtype), ("--cache-dtype", more["cache_dtype"])):
        if name and name not in sizing.BYTES:
            raise WrongOption(f'{option} "{name}": one of {", ".join(sizing.BYTES)}')
    try:
        parameters, kept, shape = _model(config, params)
        dtype = dtype or kept
        tokens = sizing.read_tokens(context)
    except ValueError as error:
        raise WrongOption(str(error)) from None
    found = sizing.need(parameters, dtype, tokens, more["sequences"], shape, more["cache_dtype"])
    target = Target(kubeconfig, "", "", output)  # --context is the model's here
    here = _products_here(target)
    fits = smallest(found.total, here)
    shown = _shown(found, dtype, tokens, more["sequences"], more["cache_dtype"], fits)
    target.show(shown, lambda: _explain(shown, here))


def _model(config: Path | None, params: str) -> tuple[float, str, Shape]:
    from gpuaas.profiles import sizing

    if config is None:
        if not params:
            raise WrongOption("name the model's size with --params (8B), or give its config.json")
        parameters = sizing.read_parameters(params)
        return parameters, "fp16", sizing.usual_shape(parameters)
    with config.open("rb") as file:
        text = file.read(_CONFIG_LIMIT + 1)
    if len(text) > _CONFIG_LIMIT:
        raise WrongOption(f"{config}: more than {_CONFIG_LIMIT} bytes, which no model's config.json has")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        raise WrongOption(f"{config} is no JSON") from None
    if not isinstance(said, dict):
        raise WrongOption(f"{config} is no model's config.json")
    counted, dtype, shape = sizing.read_config(said)
    return (sizing.read_parameters(params) if params else counted), dtype, shape


def _products_here(target: Target) -> list[str] | None:
    """The GPU products of the cluster; None where none can be asked or it has no GPU."""
    from gpuaas.views import read

    async def ask(client: HttpClient, _: str) -> list[str]:
        return (await read.node_types(client)).products

    try:
        return target.work(ask) or None
    except click.ClickException:
        return None  # the arithmetic needs no cluster


def smallest(total: float, here: list[str] | None) -> list[Fit]:
    """The smallest that fits of each kind (slice, one card, several cards), with the least memory first."""
    slices: list[Fit] = []
    cards: list[Fit] = []
    for fit in _candidates(here):
        if fit.memory_mib * _MIB >= total:
            (slices if "mig" in fit.resource else cards).append(fit)
    best = [min(kind, key=lambda fit: (fit.count, fit.memory_mib, fit.what)) for kind in (slices, cards) if kind]
    return sorted(best, key=lambda fit: fit.memory_mib)


def _candidates(here: list[str] | None) -> Iterator[Fit]:
    from gpuaas.devices.budget import usually_reserved_mib
    from gpuaas.devices.products import PRODUCTS

    for product in PRODUCTS.values():
        if here is not None and product.label not in here:
            continue
        usable = product.memory_mib - usually_reserved_mib(product.memory_mib)
        for count in _CARDS:
            yield Fit(f"{count} x {product.name}", "nvidia.com/gpu", count, count * usable)
        for profile in product.profiles:
            if not profile.parsed.attributes and not profile.parsed.without:
                resource = f"nvidia.com/mig-{profile.name}"
                yield Fit(f"a slice {profile.name} of {product.name}", resource, 1, profile.memory_mib)


def _shown(found: Need, dtype: str, tokens: int, sequences: int, cache_dtype: str, fits: list[Fit]) -> dict[str, Any]:
    from gpuaas.profiles.sizing import BYTES

    shape = found.shape
    return {
        "parameters": int(found.parameters),
        "dtype": dtype,
        "context": tokens,
        "sequences": sequences,
        "shape": {"layers": shape.layers, "kvHeads": shape.kv_heads, "headSize": shape.head, "from": shape.named},
        "weightsGiB": _gib(found.weights),
        "cacheGiB": _gib(found.cache),
        "overheadGiB": _gib(found.overhead),
        "totalGiB": _gib(found.total),
        "arithmetic": [
            f"weights   {found.parameters / 1e9:.4g}B parameters x {BYTES[dtype]:g} bytes ({dtype}) = {_gib(found.weights)} GiB",
            f"kv cache  2 x {shape.layers} layers x {shape.kv_heads} kv heads x {shape.head} x {BYTES[cache_dtype]:g} bytes"
            f" = {math.ceil(found.per_token / 1024)} KiB a token; x {tokens} tokens x {sequences} = {_gib(found.cache)} GiB",
            f"overhead  10 % of both, and 1 GiB for CUDA = {_gib(found.overhead)} GiB",
        ],
        "fits": [fit.shown() for fit in fits],
    }


def _gib(amount: float) -> float:
    from gpuaas.profiles.sizing import GIB

    return round(amount / GIB, 2)


def _explain(shown: dict[str, Any], here: list[str] | None) -> None:
    for line in shown["arithmetic"]:
        click.echo(line)
    click.echo(f"total     {shown['totalGiB']} GiB")
    click.echo(f"          (layers and heads as in {shown['shape']['from']})")
    where = "of this cluster" if here is not None else "known here"
    if not shown["fits"]:
        click.echo(f"no {max(_CARDS)} cards of one product {where} hold it")
    for fit in shown["fits"]:
        free = fit["memoryMiB"] / 1024 - shown["totalGiB"]
        click.echo(
            f"fits      {fit['what']}: {fit['memoryMiB'] / 1024:.1f} GiB, {free:.1f} left ({fit['resource']}: {fit['count']})"
        )
