"""What an engine that knows all workloads explains, as a user of some namespaces may read it."""

from __future__ import annotations

from gpuaas.engine.explain import Explanation, Holder, Numbers, Remedy
from gpuaas.engine.preempt import Rule
from gpuaas.engine.reasons import Token
from gpuaas.kueue.explain.hidden_usage import hidden, in_words

HOLDER = Holder("cq", 6, 4, (("theirs/a", 3), ("mine/b", 2), ("theirs/c", 1)))
NUMBERS = Numbers("main", "l4", "nvidia.com/gpu", 2, 4, 6, 0, 0, 8, 2, "", (HOLDER,))
FOUND = Explanation(
    "mine/w",
    "Pending",
    "cq",
    Token.WAITING_FOR_QUOTA,
    "",
    position=3,
    first="theirs/a",
    victims=(("theirs/a", Rule.RECLAIM), ("mine/b", Rule.RECLAIM)),
    numbers=(NUMBERS,),
    remedies=(
        Remedy("Departures", "2 workload(s) leaving: theirs/a, theirs/c", keys=("theirs/a", "theirs/c")),
        Remedy("Departures", "1 workload(s) leaving: mine/b", keys=("mine/b",)),
        Remedy("Quota", "2 more nvidia.com/gpu in l4", (("l4", "nvidia.com/gpu", 2),)),
    ),
)


def test_names_of_hidden_workloads_are_gone_and_amounts_stay() -> None:
    seen = hidden(FOUND, lambda namespace: namespace == "mine")
    assert "theirs/" not in repr(seen)
    assert seen.numbers[0].holders[0].largest == (("mine/b", 2), ("other-namespaces/in-cq", 4))
    assert (seen.position, seen.numbers[0].used) == (3, 6)
    assert [in_words(each.words) for each in seen.remedies] == [
        "whose leaving would help: jobs of other namespaces",
        "1 workload(s) leaving: mine/b",
        "2 more nvidia.com/gpu in l4",
    ]


def test_nothing_changes_for_a_user_who_may_see_them_all() -> None:
    assert hidden(FOUND, lambda _: True) == FOUND
