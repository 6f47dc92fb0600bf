"""What a tenant's process gets of the machine it runs on. Jobs, notebooks and shells are all given it from here.

Of the server's own environment only the variables of an allow-list: what programs need to be found, to know whose they
are, and to speak the language and the time of the place. Everything else stays with the server, since keys, tokens and
proxies' passwords lie in environments under names that no list of forbidden ones foresees. Variables that select
devices (`CUDA_*`, `NVIDIA_*`) are never inherited: which devices a process gets is decided for each pod (gpu_environment).
"""

from collections.abc import Mapping

_ALLOWED = frozenset(
    {
        *("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV"),  # where programs and their libraries are; conda needs no more
        *("HOME", "USER", "LOGNAME", "SHELL", "TMPDIR"),
        *("LANG", "LANGUAGE", "TZ"),
        *(f"LC_{each}" for each in ("ALL", "COLLATE", "CTYPE", "MESSAGES", "MONETARY", "NUMERIC", "TIME")),
    }
)


def inherited(server: Mapping[str, str]) -> dict[str, str]:
    """`server`: the environment of the control plane."""
    return {name: value for name, value in server.items() if name in _ALLOWED}
