"""What was found out about a value is kept for values just like it, and for no others."""

from gpuaas.base.memo import FoundRight, Repeats


def asked(memory: Repeats[str], values: list[object]) -> list[object]:
    looked: list[object] = []

    def find(value: object) -> str:
        looked.append(value)
        return repr(value)

    assert [memory.of(value, lambda value=value: find(value)) for value in values] == [repr(each) for each in values]
    return looked


def test_an_equal_value_is_looked_at_once() -> None:
    assert asked(Repeats(), [{"a": [1, "x"]}, {"a": [1, "x"]}]) == [{"a": [1, "x"]}]


def test_what_only_looks_alike_is_looked_at_again() -> None:
    values: list[object] = [1, 1.0, True, "1", [1], {"1": 1}, None, "", {}, []]
    assert asked(Repeats(), values) == values


def test_the_oldest_are_forgotten_first() -> None:
    assert asked(Repeats(most=2), ["a", "b", "c", "b", "a"]) == ["a", "b", "c", "a"]


def test_nothing_large_is_kept() -> None:
    large = "x" * 100_000
    assert asked(Repeats(), [large, large]) == [large, large]


def test_what_was_found_right_is_not_looked_at_again_and_what_was_wrong_is() -> None:
    memory, looked = FoundRight[str](most=2), list[str]()

    def wrong(value: str) -> list[str]:
        looked.append(value)
        return [f"{value} is not good"] if value.startswith("bad") else []

    said = [memory.of(value, lambda value=value: wrong(value)) for value in ("good", "bad", "good", "bad")]
    assert said == [[], ["bad is not good"], [], ["bad is not good"]]
    assert looked == ["good", "bad", "bad"]
    for value in ("better", "best", "good"):
        memory.of(value, lambda value=value: wrong(value))
    assert looked[3:] == ["better", "best", "good"], "the oldest are forgotten first"
