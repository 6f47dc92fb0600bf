"""Numbers in text that comes from outside: ASCII digits, and at most what a signed integer of 64 bits holds.

`str.isdigit`, `int` and `\\d` take the digits of every alphabet, and `int` takes blanks and underscores as well and fails
beyond 4,300 digits. Kubernetes takes none of these, so text is read here and nowhere else (tests/architecture).
"""

from typing import Final

LARGEST: Final = (1 << 63) - 1
_DIGITS: Final = 1000  # leading zeros included; more are not read
DIGIT: Final = "[0-9]"


def is_digits(text: str) -> bool:
    """One or more ASCII digits."""
    return text.isascii() and text.isdigit()


def natural(text: str) -> int | None:
    """Digits without a sign; None for anything else and for what 64 bits do not hold."""
    if not is_digits(text) or len(text) > _DIGITS:
        return None
    number = int(text)
    return number if number <= LARGEST else None


def integer(text: str) -> int | None:
    """As Go's strconv.ParseInt reads one: digits, perhaps with a sign; None for anything else."""
    number = natural(text[1:] if text[:1] in ("+", "-") else text)
    if number is not None:
        return -number if text[0] == "-" else number
    return -LARGEST - 1 if text == str(-LARGEST - 1) else None


def parse_integer(text: str) -> int:
    """The same, with ValueError in Go's words for what is none."""
    number = integer(text)
    if number is None:
        digits = text[1:] if text[:1] in ("+", "-") else text
        why = "value out of range" if is_digits(digits) else "invalid syntax"
        raise ValueError(f'strconv.ParseInt: parsing "{text}": {why}')
    return number
