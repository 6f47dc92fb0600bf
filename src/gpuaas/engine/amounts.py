"""Exact integer amounts of a resource: milli-units of cpu, whole units of everything else.

Owns the sentinel `UNLIMITED` and the two saturating operations used where quotas are added up. UNLIMITED is an
ordinary int far above anything a bounded amount can reach, so that plain `+`, `-` and `<` do the right thing on the
hot paths; only sums of quotas have to be brought back to it. Parsing quantities is `gpuaas.base.quantity`'s.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gpuaas.base.numbers import is_digits
from gpuaas.base.quantity import from_int, from_milli

MAX_BOUNDED: Final = 2**63 - 2
MAX_INT64: Final = 2**63 - 1
UNLIMITED: Final = 1 << 96

_BYTE_RESOURCES: Final = {"memory", "ephemeral-storage"}


def quota_sum(a: int, b: int) -> int:
    """The sum of two quotas: unlimited stays unlimited, and what no int64 holds becomes unlimited."""
    total = a + b
    return UNLIMITED if total > MAX_BOUNDED else total


def quota_rest(a: int, b: int) -> int:
    """What is left of quota `a` after `b`: unlimited minus something bounded is unlimited, minus unlimited is nothing."""
    if a >= UNLIMITED:
        return 0 if b >= UNLIMITED else UNLIMITED
    return a - b


def bounded(amount: int) -> int:
    """The amount as upstream's int64 holds it; fair shares divide these."""
    return min(MAX_INT64, amount)


def written_in_bytes(resources: Iterable[str]) -> None:
    """Amounts of these are bytes as well, wherever they are written from now on."""
    _BYTE_RESOURCES.update(resources)


def text(resource: str, amount: int) -> str:
    """The amount as Kubernetes writes a quantity of this resource."""
    if amount > MAX_BOUNDED:
        return "<unlimited>"
    if resource == "cpu":
        return str(from_milli(amount))
    binary = resource in _BYTE_RESOURCES or resource.startswith("hugepages-")
    spelled = str(from_int(amount, "binary" if binary else "decimal"))
    # Bytes that no power of 1024 divides are read again as a plain number, as upstream does: 1000000000 is 1G.
    return str(from_int(amount)) if is_digits(spelled) else spelled
