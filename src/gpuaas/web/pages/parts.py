"""What several pages do alike: addresses with a query, parts the user may not see, amounts and names as they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar
from urllib.parse import quote, urlencode

from gpuaas.base.errors import Forbidden
from gpuaas.base.quantity import parse_quantity
from gpuaas.web.svg import number

T = TypeVar("T")
GPU = "nvidia.com/gpu"


def allowed(ask: Callable[[], T]) -> T | None:
    """What `ask` returns; None where the user may not see it. The template says so in words."""
    try:
        return ask()
    except Forbidden:
        return None


def address(path: str, query: Mapping[str, str] | None = None, **changes: str) -> str:
    """A path with the query it has, some of it changed; empty values are left out."""
    wanted = {name: value for name, value in {**(query or {}), **changes}.items() if value}
    return f"{path}?{urlencode(wanted)}" if wanted else path


def path_of(*parts: str) -> str:
    return "/" + "/".join(quote(part, safe="") for part in parts)


def job_path(namespace: str, job: str) -> str:
    """`job` is `kind/name`, as rows have it."""
    return path_of("jobs", namespace, *job.split("/", 1))


def short(product: str) -> str:
    """`H200` of `NVIDIA-H200`: the maker stands on no other card here."""
    return product.removeprefix("NVIDIA-").removeprefix("Tesla-") or product


def amount_of(resource: str, text: str) -> float:
    """In the unit a page shows: GPUs and cores as they are, bytes in GiB."""
    quantity = parse_quantity(text)
    if resource in ("memory", "ephemeral-storage"):
        return quantity.value / 2**30
    return quantity.milli / 1_000


def shown(amount: float) -> str:
    """`16`, `1,024`, `0.5`."""
    return number(amount)


def counted(number: int, one: str, many: str = "") -> str:
    """`1 job`, `3 jobs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def words(parts: Iterable[str]) -> str:
    return " · ".join(part for part in parts if part)
