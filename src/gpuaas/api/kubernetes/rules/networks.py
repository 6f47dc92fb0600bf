"""IP addresses in fields of pods."""

import ipaddress

from gpuaas.base.fielderrors import FieldError, invalid

_NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def ip_address(text: str, path: str) -> list[FieldError]:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return [invalid(path, text, _NO_ADDRESS)]
    return []
