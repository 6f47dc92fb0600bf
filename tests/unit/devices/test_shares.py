"""What part of a card a resource stands for, what a pod may use of its memory, and which faults take a card out."""

from fractions import Fraction

import pytest

from gpuaas.devices.cards import Card
from gpuaas.devices.faults import marked, read_faults
from gpuaas.devices.holding import Held
from gpuaas.devices.memory import budget_of, excess_of
from gpuaas.devices.products import find
from gpuaas.devices.shares import cards_of, encode, in_text, share_of, shares_of_flavor


@pytest.mark.parametrize(
    ("resource", "shares", "part"),
    [
        ("nvidia.com/gpu", {}, Fraction(1)),
        ("amd.com/gpu", {}, Fraction(1)),
        ("nvidia.com/gpu", {"nvidia.com/gpu": 4}, Fraction(1, 4)),
        ("nvidia.com/gpu.shared", {"nvidia.com/gpu.shared": 10}, Fraction(1, 10)),
        ("nvidia.com/mig-1g.5gb", {}, Fraction(1, 7)),
        ("nvidia.com/mig-3g.20gb", {}, Fraction(3, 7)),
        ("nvidia.com/mig-7g.141gb", {}, Fraction(1)),
        ("nvidia.com/mig-1g.6gb", {}, Fraction(1, 4)),  # an A30 has four
        ("nvidia.com/mig-4g.24gb", {}, Fraction(1)),
        ("nvidia.com/mig-1g.5gb.me", {}, Fraction(1, 7)),
        ("nvidia.com/mig-1c.3g.20gb", {}, Fraction(1, 7)),
        ("nvidia.com/mig-1g.5gb", {"nvidia.com/mig-1g.5gb": 2}, Fraction(1, 14)),
    ],
)
def test_a_slice_is_its_part_of_a_card(resource: str, shares: dict[str, int], part: Fraction) -> None:
    assert share_of(resource, shares) == part


def test_amounts_add_up_exactly() -> None:
    assert cards_of([("nvidia.com/mig-1g.5gb", 7), ("nvidia.com/gpu", 2)]) == 3
    assert [in_text(one) for one in (Fraction(3), Fraction(1, 4), Fraction(1, 7), Fraction(0))] == [
        "3",
        "0.25",
        "0.14",
        "0",
    ]


def test_what_a_flavor_carries_is_read_back() -> None:
    text = encode({"nvidia.com/gpu": 4})
    assert shares_of_flavor({"metadata": {"annotations": {"gpuaas.dev/card-shares": text}}}) == {"nvidia.com/gpu": 4}
    assert shares_of_flavor({"metadata": {"annotations": {"gpuaas.dev/card-shares": "x=0,=4,nvidia.com/gpu=y"}}}) == {}
    assert shares_of_flavor(None) == {}


def held(id_: str = "GPU-a", *, shares: int = 0, budget: int = 0) -> Held:
    uuid = id_.partition("::")[0]
    return Held("main", "nvidia.com/gpu", id_, uuid, "NVIDIA A100", 40960, shares=shares, budget=budget)


@pytest.mark.parametrize(
    ("devices", "budget"),
    [
        ([held()], 40960),
        ([held(budget=12288)], 12288),
        ([held("GPU-a::0", shares=4, budget=10080)], 10080),
        ([held("GPU-a::0", shares=4, budget=10080), held("GPU-a::1", shares=4, budget=10080)], 20160),
        ([], 0),
    ],
)
def test_a_pod_may_use_the_budgets_of_its_devices_together(devices: list[Held], budget: int) -> None:
    assert budget_of(devices) == budget


def test_only_use_above_the_budget_is_an_excess() -> None:
    mine = [held("GPU-a::0", shares=4, budget=10080)]
    assert excess_of(mine, "10080Mi") is None
    assert str(excess_of(mine, "10081Mi")) == (
        "the pod uses 10081 MiB of GPU memory, its budget is 10080 MiB (one of 4 shares of 40960 MiB; GPU 0, GPU-a)"
    )
    assert excess_of([], "10Gi") is None
    assert excess_of(mine, "no amount") is None
    assert excess_of([held()], "41Gi") is not None, "not even a whole card has that much"


def test_faults_name_cards_by_index_or_uuid_and_what_is_none_is_reported() -> None:
    product = find("NVIDIA-L4")
    assert product is not None
    cards = (Card(0, "GPU-a", product), Card(1, "GPU-b", product), Card(2, "GPU-c", product))
    found, wrong = read_faults("0=xid:79, GPU-b=temperature:80, 2=xid:31, 1=smoke, =ecc, 2=xid:-1")
    assert wrong == ("1=smoke", "=ecc", "2=xid:-1")
    assert [card.unhealthy for card in marked(cards, found)] == ["Xid 79", "", ""]
    assert [card.unhealthy for card in marked(cards, read_faults("1=ecc,1=vanished")[0])][1].startswith("uncorrectable")
    assert read_faults("0=xid:79", {"DP_DISABLE_HEALTHCHECKS": "79"})[0]["0"][0].ill == ""
