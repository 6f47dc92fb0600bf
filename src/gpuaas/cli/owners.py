"""`--user` and `--mine`: only what one user created, as the annotation gpuaas.dev/owner says."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click

from gpuaas.client.protocol import Resource

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient

Command = Callable[..., Any]
_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", False, "SelfSubjectReview")


@dataclass(frozen=True, slots=True)
class Whose:
    """What was asked for: a user's name, or the caller's own."""

    named: str
    mine: bool

    async def name(self, client: "HttpClient") -> str:
        """ "" where it does not matter who."""
        return await own_name(client) if self.mine else self.named


async def own_name(client: "HttpClient") -> str:
    """The name the cluster knows the caller by."""
    from gpuaas.base.errors import ApiError

    try:
        found = await client.create(_REVIEWS, {"metadata": {}})
    except ApiError as error:
        if error.code not in (403, 404):
            raise
        words = "this cluster does not say who you are (Kubernetes does since 1.28): give your name with --user"
        raise click.ClickException(words) from None
    return str(((found.get("status") or {}).get("userInfo") or {}).get("username") or "")


def of_a_user(command: Command) -> Command:
    """Adds --user and --mine; the command gets a `Whose` as `user`."""

    @click.option("--user", "named", default="", metavar="NAME", help="Only what this user created.")
    @click.option("--mine", is_flag=True, help="Only what you created.")
    @wraps(command)
    def run(*args: Any, named: str, mine: bool, **rest: Any) -> Any:
        if named and mine:
            raise click.UsageError("--user and --mine exclude each other: --mine is --user with your own name")
        return command(*args, user=Whose(named, mine), **rest)

    return run
