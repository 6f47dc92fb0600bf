"""Names of MIG profiles: `[Cc.]Gg.Ngb[+attribute,…|-attribute,…]`, C compute slices of a G-slice instance of N GB."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class ProfileName:
    compute: int
    slices: int
    gigabytes: int
    attributes: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def gpu_instance(self) -> str:
        """The profile of the GPU instance a compute instance lies in: the name without its `Cc.`."""
        return str(ProfileName(self.slices, self.slices, self.gigabytes, self.attributes, self.without))

    @property
    def is_whole(self) -> bool:
        """Whether the compute instance takes all of its GPU instance."""
        return self.compute == self.slices

    def __str__(self) -> str:
        prefix = "" if self.is_whole else f"{self.compute}c."
        suffix = "+" + ",".join(self.attributes) if self.attributes else ""
        minus = "-" + ",".join(self.without) if self.without else ""
        return f"{prefix}{self.slices}g.{self.gigabytes}gb{suffix}{minus}"


def parse_profile(text: str) -> ProfileName:
    """Raises ValueError in NVIDIA's words: what about the name is malformed."""
    if not text:
        raise ValueError("profile is the empty string")
    if "+" in text and "-" in text:
        raise ValueError(f"profile '{text}' contains both '+/-' attributes")
    sign = "+" if "+" in text else "-"
    body, found, listed = text.partition(sign)
    try:
        compute, slices, gigabytes = _fields(body)
    except ValueError as error:
        raise ValueError(f"cannot parse fields of '{text}': {error}") from None
    try:
        attributes = _attributes(listed) if found else ()
    except ValueError as error:
        raise ValueError(f"cannot parse attributes of '{text}': {error}") from None
    if sign == "+":
        return ProfileName(compute, slices, gigabytes, attributes)
    return ProfileName(compute, slices, gigabytes, (), attributes)


def _fields(body: str) -> tuple[int, int, int]:
    match body.split(".", 2):
        case [compute, slices, gigabytes]:
            return _number(compute, "c"), _number(slices, "g"), _number(gigabytes, "gb")
        case [slices, gigabytes]:
            return _number(slices, "g"), _number(slices, "g"), _number(gigabytes, "gb")
        case _:
            raise ValueError("parsed wrong number of fields, expected 2 or 3")


def _number(part: str, unit: str) -> int:
    if part != part.strip():
        raise ValueError(f"leading or trailing spaces on '%d{unit}'")
    if not part.endswith(unit):
        raise ValueError(f"missing '{unit}' from '%d{unit}'")
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", digits := part.removesuffix(unit)):
        raise ValueError(f"malformed number in '%d{unit}'")
    return int(digits)


def _attributes(text: str) -> tuple[str, ...]:
    found: list[str] = []
    for attribute in text.split(","):
        if attribute in found:
            raise ValueError("non unique attribute in list")
        if not attribute:
            raise ValueError("empty attribute in list")
        if attribute.strip() != attribute:
            raise ValueError("leading or trailing spaces in attribute")
        if attribute[0] in "0123456789":
            raise ValueError("attribute begins with a number")
        if attribute[0] == "." or attribute[-1] == ".":
            raise ValueError("attribute begins/ends with a dot")
        if not re.fullmatch(r"[A-Za-z0-9.]+", attribute):
            raise ValueError("non alpha-numeric character or digit in attribute")
        found.append(attribute)
    return tuple(found)
