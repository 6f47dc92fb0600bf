"""Whose pods a folder holds, through every change of the cluster that keeps its pods there."""

from pathlib import Path

import pytest

from gpuaas.executors.claim import claim


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "pods" / "local"


def put(folder: Path, *pods: str) -> None:
    for pod in pods:
        (folder / pod).mkdir(parents=True)


def test_the_first_cluster_takes_what_it_finds(folder: Path) -> None:
    put(folder, "p1")
    assert claim(folder, "a") == frozenset()
    put(folder, "p2")
    assert claim(folder, "a") == frozenset()


def test_another_cluster_owns_nothing_of_what_was_there(folder: Path) -> None:
    claim(folder, "a")
    put(folder, "p1", "p2")
    assert claim(folder, "b") == {"p1", "p2"}
    put(folder, "p3")
    assert claim(folder, "b") == {"p1", "p2"}


def test_the_first_cluster_comes_back_to_its_own(folder: Path) -> None:
    claim(folder, "a")
    put(folder, "p1")
    claim(folder, "b")
    put(folder, "p2")
    assert claim(folder, "a") == {"p2"}
    assert claim(folder, "b") == {"p1"}


def test_a_pod_that_has_gone_is_forgotten(folder: Path) -> None:
    claim(folder, "a")
    put(folder, "p1")
    claim(folder, "b")
    (folder / "p1").rmdir()
    assert claim(folder, "b") == frozenset()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cluster": "a"}', '{"cluster": "a", "others": []}'])
def test_with_a_damaged_file_all_pods_belong_to_others(folder: Path, text: str) -> None:
    claim(folder, "a")
    put(folder, "p1")
    (folder.parent / "local.json").write_text(text)
    assert claim(folder, "a") == {"p1"}
    assert claim(folder, "a") == {"p1"}
