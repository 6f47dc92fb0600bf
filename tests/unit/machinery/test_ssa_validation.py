"""Names of managers: how long, which characters, and when one is needed."""

import pytest

from gpuaas.machinery.ssa import managed_fields_problems, manager_problems, patch_problems


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("kubectl", []),
        ("", []),
        ("mañana 1", []),
        ("x" * 128, []),
        ("x" * 129, ["fieldManager: Too long: may not be more than 128 bytes"]),
        ("é" * 65, ["fieldManager: Too long: may not be more than 128 bytes"]),
        ("é\n", ['fieldManager: Invalid value: "é\\n": invalid character U+000A (at position 2)']),
    ],
)
def test_a_manager_is_short_and_printable(name: str, texts: list[str]) -> None:
    assert [str(problem) for problem in manager_problems(name)] == texts


@pytest.mark.parametrize(
    ("manager", "force", "applies", "texts"),
    [
        ("me", True, True, []),
        ("", None, False, []),
        ("", None, True, ["fieldManager: Required value: is required for apply patch"]),
        ("me", False, False, ["force: Forbidden: may not be specified for non-apply patch"]),
    ],
)
def test_an_apply_needs_a_manager_and_only_it_can_be_forced(
    manager: str, force: bool | None, applies: bool, texts: list[str]
) -> None:
    assert [str(problem) for problem in patch_problems(manager, force, applies=applies)] == texts


def test_entries_that_were_sent_are_checked_one_by_one() -> None:
    entries = [{"manager": "ok"}, {"manager": "x" * 129, "subresource": "s" * 257}]
    assert [problem.path for problem in managed_fields_problems(entries)] == [
        "metadata.managedFields[1].manager",
        "metadata.managedFields[1].subresource",
    ]
