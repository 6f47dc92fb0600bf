"""What part of a card one unit of a resource stands for: a slice is not a GPU. Pure.

A MIG slice is its compute slices of those of the whole card, by its name. A share under time-slicing or MPS is one of so
many as the node's cards are shared by; a resource name alone does not tell, so the ResourceFlavor carries it in the
annotation `gpuaas.dev/card-shares` (`nvidia.com/gpu=4`), which the control plane keeps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final

from gpuaas.base.numbers import natural
from gpuaas.devices.products import PRODUCTS

ANNOTATION: Final = "gpuaas.dev/card-shares"
_MIG: Final = re.compile(r"mig-(?:([0-9])c\.)?([0-9])g\.[0-9]+gb")
_WHOLE: Final = {
    profile.name.replace("+", "."): product.whole for product in PRODUCTS.values() for profile in product.profiles
}
_ONE: Final = Fraction(1)
Shares = Mapping[str, int]  # by resource: into how many parts a card is shared
NO_SHARES: Final[Shares] = {}


def share_of(resource: str, shares: Shares = NO_SHARES) -> Fraction:
    """`resource`: one of cards, such as `nvidia.com/gpu` or `nvidia.com/mig-1g.5gb`."""
    name = resource.rpartition("/")[2]
    if (found := _MIG.match(name)) is not None:
        compute, slices = found.groups()
        whole = _WHOLE.get(name.removeprefix("mig-").removesuffix(".shared"), 7)
        part = min(_ONE, Fraction(int(compute or slices), whole))
    else:
        part = _ONE
    return part / max(1, shares.get(resource, 1))


def cards_of(amounts: Iterable[tuple[str, int]], shares: Shares = NO_SHARES) -> Fraction:
    """How many whole cards these amounts of resources stand for."""
    return sum((share_of(resource, shares) * amount for resource, amount in amounts), Fraction(0))


def as_number(cards: Fraction) -> float:
    """An int where it is whole, else a float with two decimals."""
    return cards.numerator if cards.denominator == 1 else round(float(cards), 2)


def in_text(cards: Fraction) -> str:
    """`2`, `0.25`, `0.14`: at most two decimals."""
    return str(cards.numerator) if cards.denominator == 1 else f"{float(cards):.2f}".rstrip("0").rstrip(".")


def shares_of_flavor(flavor: Mapping[str, Any] | None) -> Shares:
    """What its annotation says; nothing of a flavor that is not there."""
    if flavor is None:
        return NO_SHARES
    text = (flavor["metadata"].get("annotations") or {}).get(ANNOTATION)
    found: dict[str, int] = {}
    for part in str(text or "")[:1024].split(","):
        resource, _, count = part.strip().partition("=")
        number = natural(count)
        if resource and number and number > 1:
            found[resource] = number
    return found


def encode(shares: Shares) -> str | None:
    return ",".join(f"{resource}={count}" for resource, count in sorted(shares.items())) or None
