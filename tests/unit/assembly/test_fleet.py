"""Fleet files: what they mean, and what is said of mistakes."""

import re
from pathlib import Path

import pytest

from gpuaas.assembly.fleet import KEYS, FleetError, builtin_fleets, fleet_text, read_fleet

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "fleet.md"


def test_the_guide_names_every_key() -> None:
    named = set(re.findall(r"^\| `([^`]+)` \|", GUIDE.read_text(), re.MULTILINE))
    known = {f"{where}.{key}".lstrip(".") for where, keys in KEYS.items() for key in keys}
    assert known - named == set()
    assert {one for one in named if "gpuaas.dev" not in one} - known == set()


def test_the_example_of_the_guide_can_be_read() -> None:
    example = re.search(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert example is not None
    fleet = read_fleet(example[1])
    assert (fleet.speed, len(fleet.objects)) == (10.0, 1)
    nodes = fleet.cluster("local").nodes
    assert [node.name for node in nodes] == ["h200-0", "h200-1"]
    assert (nodes[0].gpu_count, nodes[0].gpu_memory, nodes[0].cpu) == (8, 144384, "192")
    assert len({node.address for node in nodes}) == 2


@pytest.mark.parametrize("name", builtin_fleets())
def test_built_in_fleets_are_right(name: str) -> None:
    assert read_fleet(fleet_text(name)).clusters


def test_a_node_alone_has_the_name_it_was_given() -> None:
    fleet = read_fleet("clusters: [{name: one, nodes: [{name: x}]}]")
    assert [(node.name, node.gpu_count) for node in fleet.cluster("one").nodes] == [("x", 0)]


WRONG = {
    "nothing": ("", "clusters: Required value"),
    "no list": ("clusters: 3", "clusters: Invalid value: 3: must be a list"),
    "an unknown key": (
        "clusters: [{name: a, nodes: [{name: x, gpus: 4}]}]",
        'clusters[0].nodes[0].gpus: Invalid value: "gpus": there is no such key here; known are: name, count,',
    ),
    "no name": ("clusters: [{nodes: []}]", "clusters[0].name: Required value"),
    "a name that cannot be": (
        "clusters: [{name: A_B}]",
        'clusters[0].name: Invalid value: "A_B": a lowercase RFC 1123',
    ),
    "two of a name": ("clusters: [{name: a}, {name: a}]", 'clusters[1].name: Duplicate value: "a"'),
    "nodes of one name": (
        "clusters: [{name: a, nodes: [{name: x}, {name: x}]}]",
        'clusters[0].nodes: Duplicate value: "x"',
    ),
    "a count that is none": (
        "clusters: [{name: a, nodes: [{name: x, count: two}]}]",
        'clusters[0].nodes[0].count: Invalid value: "two": must be a whole number from 1 to 10000',
    ),
    "cards that are none": (
        "clusters: [{name: a, nodes: [{name: x, gpu: 8}]}]",
        "clusters[0].nodes[0].gpu: Invalid value: 8: must be a mapping, such as {product: NVIDIA-H200, count: 8}",
    ),
    "an amount that is none": (
        "clusters: [{name: a, nodes: [{name: x, memory: 1 GB}]}]",
        'clusters[0].nodes[0].memory: Invalid value: "1 GB": must be an amount such as 16, 500m or 64Gi',
    ),
    "less than nothing": (
        "clusters: [{name: a, nodes: [{name: x, cpu: -1}]}]",
        "clusters[0].nodes[0].cpu: Invalid value",
    ),
    "a label that is no text": (
        "clusters: [{name: a, nodes: [{name: x, labels: {a: 1}}]}]",
        "clusters[0].nodes[0].labels[a]: Invalid value: 1: must be text",
    ),
    "an effect that is none": (
        "clusters: [{name: a, nodes: [{name: x, taints: [{key: k, effect: Never}]}]}]",
        'clusters[0].nodes[0].taints[0].effect: Unsupported value: "Never": supported values: "NoExecute"',
    ),
    "a speed of nothing": ("speed: 0\nclusters: [{name: a}]", "speed: Invalid value: 0: must be a number above 0"),
    "no object": ("clusters: [{name: a}]\n---\nkind: Namespace", "document 2: Invalid value"),
    "no YAML": ("clusters: [", "yaml:"),
}


@pytest.mark.parametrize(("text", "words"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_named(text: str, words: str) -> None:
    with pytest.raises(FleetError) as error:
        read_fleet(text)
    assert words in str(error.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(FleetError) as error:
        read_fleet("speed: fast\nclusters: [{name: a, nodes: [{count: 0, cpu: x}]}]")
    assert len(str(error.value).splitlines()) == 4


def test_a_fleet_that_is_neither_built_in_nor_a_file() -> None:
    with pytest.raises(FleetError, match=r'"demoo" is neither a built-in fleet \(.*demo.*\) nor a file'):
        fleet_text("demoo")
