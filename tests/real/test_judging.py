"""The harness itself: what is made alike, what stays a difference, how cases are read. Needs no real programs."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import cast

import pytest
from tests.real import differential, judge, script, wire
from tests.real.generate import MAKERS, Maker
from tests.real.judge import Difference, Judge, Listed
from tests.real.normal import Normaliser
from tests.real.script import Outcome
from tests.real.sides import Response, Side

ONE, TWO = "0d5c0f3a-6a9f-4f0f-9d5e-1f2a3b4c5d6e", "11111111-2222-4333-8444-555555555555"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (f"uid: {ONE}", f"uid: {TWO}"),
        ('resourceVersion: "451"', 'resourceVersion: "98"'),
        ('{\\"resourceVersion\\":\\"451\\"}', '{\\"resourceVersion\\":\\"98\\"}'),
        ("creationTimestamp: 2026-01-01T00:00:00Z", "creationTimestamp: 2026-01-02T10:00:00.123456Z"),
        ("NAME   AGE\na      5s", "NAME   AGE\na      1m12s"),
        ("web   ClusterIP   10.96.7.1      80/TCP   3s", "web   ClusterIP   10.96.213.111   80/TCP   4s"),
        ("replica set web-7887448d46 with web-7887448d46-bcd45", "replica set web-79578d55 with web-79578d55-zzz45"),
        ("configmap/made-x7k2p created", "configmap/made-bcd45 created"),
        ("W1115 15:51:59.820153   26404 prune.go:71] x", "W1116 01:51:59.820154       4 prune.go:71] x"),
        ("metadata:\n  name: a\n", "metadata:\n  annotations:\n    gpuaas.dev/owner: admin\n  name: a\n"),
        (
            "metadata:\n  annotations:\n    a: b\n  name: a\n",
            "metadata:\n  annotations:\n    a: b\n    gpuaas.dev/owner: admin\n  name: a\n",
        ),
        (
            '{\n  "metadata": {\n    "name": "a"\n  }\n}',
            '{\n  "metadata": {\n    "annotations": {\n      "gpuaas.dev/owner": "admin"\n    },\n    "name": "a"\n  }\n}',
        ),
        ("Annotations:  <none>\nStatus: x", "Annotations:  gpuaas.dev/owner: admin\nStatus: x"),
        ("Annotations:  z: b\nStatus: x", "Annotations:  gpuaas.dev/owner: admin\n              z: b\nStatus: x"),
        ("https://127.0.0.1:1234/api", "https://127.0.0.1:777/clusters/local/api"),
    ],
)
def test_what_two_right_servers_may_print_differently_is_made_alike(left: str, right: str) -> None:
    mine = Normaliser({"https://127.0.0.1:1234": "<server>"})
    other = Normaliser({"https://127.0.0.1:777/clusters/local": "<server>"})
    assert mine.text(left) == other.text(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("exit 1", "exit 2"),
        ("image: nginx:1.25", "image: nginx:1.26"),
        (f"uid: {ONE}\nowner: {ONE}", f"uid: {ONE}\nowner: {TWO}"),
        ('resourceVersion: "451"\nresourceVersion: "451"', 'resourceVersion: "98"\nresourceVersion: "99"'),
        ("timeout: 30s", "timeout: 31s"),
        ("  indented", "    indented"),
    ],
)
def test_what_means_something_stays_a_difference(left: str, right: str) -> None:
    assert Normaliser({}).text(left) != Normaliser({}).text(right)


def test_a_list_revision_moves_freely_but_an_objects_does_not() -> None:
    normal = Normaliser({})
    listed = normal.value({"kind": "ConfigMapList", "metadata": {"resourceVersion": "77"}, "items": []})
    assert "77" not in listed
    assert "<list revision>" in listed
    assert "<revision-1>" in normal.value({"kind": "ConfigMap", "metadata": {"resourceVersion": "77"}})


def test_managers_have_no_order() -> None:
    entries = ["  - apiVersion: v1\n    manager: a\n", "  - apiVersion: v1\n    manager: b\n"]
    left, right = (f"metadata:\n  managedFields:\n{a}{b}  name: x\n" for a, b in (entries, reversed(entries)))
    assert left != right
    assert Normaliser({}).text(left) == Normaliser({}).text(right)


def test_a_script_is_read_with_its_commands_and_files() -> None:
    text = "words about it\n== one: a sentence\n# a remark\nkubectl get \\\n  cm\n\n-- a.yaml --\nkind: X\n-- b --\nb\n== two: t\nx\n"
    first, second = script.parse(text)
    assert (first.name, first.sentence, first.lines) == ("one", "a sentence", ("kubectl get    cm",))
    assert first.files == {"a.yaml": "kind: X\n", "b": "b\n"}
    assert (second.name, second.lines, second.files) == ("two", ("x",), {})


def test_every_case_name_can_be_a_namespace() -> None:
    assert [case.name for case in script.load() if not case.name.replace("-", "").isalnum()] == []


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([], 1),
        ([Listed("case: kubectl get*", "why", "title")], 0),
        ([Listed("other: *", "why", "title")], 1),
        ([Listed("case: *", "why", "title", lines="^b$")], 1),
        ([Listed("case: *", "why", "title", lines="^(b|c)$")], 0),
        ([Listed("case: *", "why", "title", real="^b$", ours="^c$")], 0),
        ([Listed("case: *", "why", "title", real="^c$", ours="^b$")], 1),
        ([Listed("case: *", "why", "title", real="^[ab]$", ours="^[ac]$")], 0),
        ([Listed("case: *", "why", "title", ours=".")], 1),
    ],
)
def test_only_a_listed_difference_is_forgiven(listed: list[Listed], expected: int) -> None:
    left = [Outcome("kubectl get x", {"stdout": "a\nb"})]
    right = [Outcome("kubectl get x", {"stdout": "a\nc"})]
    verdict = Judge(listed)
    assert len(verdict.compare("case", left, right)) == expected
    assert len(verdict.stale) == (len(listed) if expected else 0)


def test_a_case_that_ends_early_differs() -> None:
    steps = [Outcome("one", {"stdout": ""}), Outcome("two", {"stdout": ""})]
    assert [found.step for found in Judge().compare("case", steps, steps[:1])] == ["two"]


@dataclass
class Answering:
    """A side on which every request does what it should; what a case prints is its own affair."""

    name: str

    def send(self, method: str, *_: object) -> Response:
        return Response(201 if method == "POST" else 200, {}, b"")


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        pytest.param({"real": ["a", "a"], "ours": ["b", "b"]}, ["look"], id="what differs both times counts"),
        pytest.param({"real": ["a", "a"], "ours": ["b", "a"]}, [], id="what differs once does not"),
        pytest.param({"real": ["a"], "ours": ["a"]}, [], id="what is alike is run once"),
    ],
)
def test_a_difference_counts_when_it_shows_again(printed: dict[str, list[str]], expected: list[str]) -> None:
    def run(side: Side) -> list[Outcome]:
        return [Outcome("look", {"stdout": printed[side.name].pop(0)})]

    both = cast("list[Side]", [Answering("real"), Answering("ours")])
    found = differential.differing_twice([("case", run)], both, Judge())
    assert [difference.step for difference in found] == expected
    assert printed == {"real": [], "ours": []}


def test_a_difference_is_shown_line_by_line() -> None:
    shown = judge.render(Difference("case", "kubectl get x", "stdout", "same\nleft", "same\nright"))
    assert shown.splitlines()[-3:] == ["         | same", "    real | left", "    ours | right"]


def test_every_listed_difference_has_a_title_and_a_reason() -> None:
    assert [entry for entry in judge.load() if not entry.title or len(entry.reason) < 20] == []


@pytest.mark.parametrize("maker", MAKERS)
def test_generated_changes_are_the_same_each_time(maker: type[Maker]) -> None:
    assert [maker(3).whole(), maker(3).changes(20)] == [maker(3).whole(), maker(3).changes(20)]
    assert maker(3).changes(20) != maker(4).changes(20)


def test_every_listed_difference_is_of_a_case_there_is() -> None:
    cases = [case.name for case in script.load()] + list(wire.load())
    listed = [entry for entry in judge.load() if not entry.unscripted]
    missing = [entry.step for entry in listed if not fnmatch.filter(cases, entry.step.partition(":")[0])]
    assert missing == []


def test_what_is_left_out_is_named_once() -> None:
    titles = [entry.title for entry in judge.load_omissions()]
    assert titles
    assert len(set(titles)) == len(titles)
