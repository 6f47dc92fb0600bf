"""--user and --mine: whose rows are asked for."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import click
import pytest

from gpuaas.base.errors import ApiError, Forbidden, Internal, PageNotFound
from gpuaas.cli.audit import concerning
from gpuaas.cli.owners import Whose
from gpuaas.cli.queues import held_by
from gpuaas.client.http import HttpClient


class Cluster:
    def __init__(self, answer: ApiError | dict[str, Any]) -> None:
        self.answer = answer

    async def create(self, *_: Any) -> dict[str, Any]:
        if isinstance(self.answer, ApiError):
            raise self.answer
        return self.answer


def name(whose: Whose, answer: ApiError | dict[str, Any]) -> str:
    return asyncio.run(whose.name(cast("HttpClient", Cluster(answer))))


KNOWN = {"status": {"userInfo": {"username": "system:serviceaccount:ns:me"}}}


@pytest.mark.parametrize(
    ("whose", "found"),
    [(Whose("", False), ""), (Whose("bob", False), "bob"), (Whose("", True), "system:serviceaccount:ns:me")],
)
def test_whose_it_is(whose: Whose, found: str) -> None:
    assert name(whose, KNOWN) == found


@pytest.mark.parametrize("answer", [PageNotFound(), Forbidden("authentication.k8s.io", "selfsubjectreviews", "", "no")])
def test_a_cluster_that_does_not_say_who_asks_needs_a_name(answer: ApiError) -> None:
    with pytest.raises(click.ClickException, match="--user"):
        name(Whose("", True), answer)


def test_what_else_goes_wrong_is_not_hidden() -> None:
    with pytest.raises(Internal):
        name(Whose("", True), Internal("broken"))


def test_rows_of_gpus_keep_what_one_user_holds() -> None:
    nodes = [{"node": "n1", "users": {"ann": 1, "bob": 2}}, {"node": "n2", "users": {"bob": 4}}]
    rows = [{"product": "L4", "users": {"bob": 6, "ann": 1}, "perNode": nodes}, {"product": "H200", "users": {}}]
    assert held_by("", rows) == rows
    assert held_by("ann", rows) == [
        {"product": "L4", "users": {"ann": 1}, "perNode": [{"node": "n1", "users": {"ann": 1}}]}
    ]
    assert held_by("eve", rows) == []


def test_preemptions_concern_both_users() -> None:
    rows = [
        {"victimOwner": "ann", "preemptorOwner": "bob"},
        {"victimOwner": "bob", "preemptorOwner": "cleo"},
        {"victimOwner": "", "preemptorOwner": ""},
    ]
    assert concerning("", rows) == rows
    assert concerning("bob", rows) == rows[:2]
    assert concerning("ann", rows) == rows[:1]
