"""Annotations of nodes and pods that others write: whatever JSON they hold, the readers answer, and what they answer can be
written as UTF-8 and as JSON again."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from gpuaas.controllers.gpu_nodes import change
from gpuaas.devices import budget, faults, foreign, holding, inventory, shares, sharing
from gpuaas.devices.advertise import config_in_force

SCALARS = ("null", "true", "-1", "1.5", "1e999", "NaN", "Infinity", "9" * 400, "9" * 5000, '"a"', '"\\ud800"', "[]", "[[1]]", "{}", '{"a":{}}')  # fmt: skip
DEEP = ("[" * 100_000, '{"a":' * 100_000)


def _cards(text: str) -> Any:
    shown = inventory.cards_shown(text)
    found = inventory.with_closed(inventory.restored(shown, text), text)
    return [(one.uuid, one.name, one.unhealthy, one.memory_mib) for one in found]


def _foreign(text: str) -> Any:
    cards = inventory.cards_shown('[{"uuid":"a","product":"H200"}]')
    found = foreign.with_foreign(cards, {foreign.FOREIGN: text})
    return [one.unhealthy for one in found], [one.in_words for one in foreign.foreign_processes(text)]


def _wish(text: str) -> Any:
    try:
        wish = sharing.read_wish(text)
    except sharing.WishError as error:
        return str(error)
    return wish and wish.document()


def _held(text: str) -> Any:
    pod = {"metadata": {"annotations": {holding.ANNOTATION: text}}}
    return holding.encode(holding.held_by(pod)), [one.uuid for one in holding.held_by(pod)]


READERS: dict[str, tuple[Callable[[str], Any], tuple[str, ...]]] = {
    "cards": (_cards, ('[{{"uuid":{0}}}]', '[{{"uuid":"a","product":{0}}}]', '[{{"uuid":"a","memory":{0}}}]', '[{{"uuid":"a","closed":{0}}}]', '[{{"uuid":"a","product":"H200","mig":{0}}}]', '[{{"uuid":"a","product":"H200","mig":[{{"profile":{0}}}]}}]')),
    "foreign": (_foreign, ('[{{"card":{0},"pid":1}}]', '[{{"card":"a","pid":{0}}}]', '[{{"card":"a","pid":1,"user":{0}}}]', '[{{"card":"a","pid":1,"command":{0}}}]', '[{{"card":"a","pid":1,"memory":{0}}}]')),
    "change": (lambda text: change.encode(change.decode(text)), ('{{"mig":{0}}}', '{{"mig":{{"goal":{0},"step":"draining"}}}}', '{{"mig":{{"goal":"a","step":{0}}}}}', '{{"mig":{{"goal":"a","step":"draining","since":{0}}}}}', '{{"mig":{{"goal":"a","step":"draining","before":{0}}}}}', '{{"mig":{{"goal":"a","step":"draining","before":{{"c":{0}}}}}}}', '{{"sharing":{{"goal":"a","step":"failed","message":{0}}}}}')),
    "wish": (_wish, ('{{"strategy":{0}}}', '{{"strategy":"mps","replicas":{0}}}', '{{"strategy":"none","cards":{0}}}', '{{"strategy":"none","cards":[{0}]}}')),
    "held": (_held, ('{{"c":{0}}}', '{{"c":[{{"id":{0},"resource":"r","card":"c"}}]}}', '{{"c":[{{"id":"i","resource":"r","card":"c","memory":{0},"product":{0}}}]}}', '{{{0}:[{{"id":"i","resource":"r","card":"c"}}]}}')),
    "config": (lambda text: config_in_force(text) and 1, ('{{"document":{0}}}', '{{"document":{{"version":"v1","flags":{0}}}}}', '{{"document":{{"version":"v1","flags":{{}},"sharing":{{"timeSlicing":{{"resources":[{{"name":"nvidia.com/gpu","replicas":{0}}}]}}}}}}}}', '{{"document":{{"version":"v1"}},"cards":{0}}}')),
}  # fmt: skip


def _cases() -> list[Any]:
    made = []
    for name, (_, shapes) in READERS.items():
        texts = [*SCALARS, *DEEP, *(shape.format(junk) for shape, junk in product(shapes, SCALARS))]
        made.append(pytest.param(name, texts, id=name))
    return made


@pytest.mark.parametrize(("name", "texts"), _cases())
def test_a_reader_takes_any_json(name: str, texts: list[str]) -> None:
    read, _ = READERS[name]
    wrong = []
    for text in texts:
        try:
            found = read(text)
            json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
            if isinstance(found, str):
                json.loads(found, parse_constant=_refuse) if name == "change" else None
        except Exception as error:
            wrong.append(f"{text[:90]}: {type(error).__name__}: {str(error)[:60]}")
    assert not wrong, "\n".join(wrong)


def _refuse(word: str) -> Any:
    raise AssertionError(f"{word} is no JSON")


def test_what_is_said_of_an_amount_of_memory_is_short() -> None:
    for text in ("9" * 250_000, "a" * 250_000, "1" + " " * 250_000):
        with pytest.raises(budget.BudgetError) as caught:
            budget.asked_mib({budget.ANNOTATION: text})
        assert len(str(caught.value)) < 300


def test_faults_are_read_in_linear_time_and_named_shortly() -> None:
    assert shares.ANNOTATION != faults.ANNOTATION
    found, wrong = faults.read_faults(",".join("0=xid:" + "9" * 50 for _ in range(4000)))
    assert len(found) <= 1
    assert all(len(one) <= 64 for one in wrong)
