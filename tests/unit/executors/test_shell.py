"""The simulated shell: words as shlex has them, in linear time; what passes a limit ends with the limit named."""

import shlex
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpuaas.executors import shell
from gpuaas.executors.limits import Budget
from gpuaas.executors.simulated_lifetimes import life_of


def of_shlex(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


@given(some.text("ab=$#\\'\" \n\t", max_size=20))
def test_words_are_those_of_shlex(text: str) -> None:
    assert shell._words(text) == of_shlex(text)


def pod(*containers: dict[str, Any]) -> dict[str, Any]:
    made = [{"name": f"c{number}", "image": "i", **one} for number, one in enumerate(containers)]
    return {"metadata": {"name": "p"}, "spec": {"containers": made, "restartPolicy": "Never"}}


def sh(text: str, **more: Any) -> dict[str, Any]:
    return {"command": ["sh", "-c", text], **more}


DOUBLING = "A=xxxxxxxx; " + "A=$A$A$A$A$A; " * 9 + "echo hi"

REFUSED = {
    "expansions": (DOUBLING, "its variables expand to 156258 characters, at most 131072 are allowed"),
    "expansions without quotes": (DOUBLING.replace("$A", '"${A}"'), "its variables expand to"),
    "commands": ("true\n" * 5001, "it takes 5001 commands and expansions, at most 5000 are allowed"),
    "expansions one by one": ("echo " + "$A" * 5001, "commands and expansions"),
    "sums": ("echo " + "$((1+1))" * 6000, "commands and expansions"),
    "depth": ("if true; then " * 17, "its commands are nested 17 deep, at most 16 are allowed"),
    "depth of what runs others": ("run -- " * 18 + "true", "its commands are nested 17 deep"),
    "lines": ("printf '" + "a\\n" * 5001 + "'", "it writes 5001 lines, at most 5000 are allowed"),
}


@pytest.mark.parametrize(("text", "words"), REFUSED.values(), ids=REFUSED)
def test_what_passes_a_limit_ends_with_the_limit_named(text: str, words: str) -> None:
    life = life_of(pod(sh(text)), {})
    script = life.of("c0")
    assert (script.exit_code, script.reason) == (1, "SimulationLimit")
    assert words in script.message
    assert words in script.lines[-1][1], "its log says so"
    assert life_of(pod(sh(text)), {}) == life, "the same end each time"


def test_what_a_container_writes_is_limited() -> None:
    script = life_of(pod({"command": ["echo", *["x" * 100_000] * 3]}), {}).of("c0")
    assert "it writes 300002 characters, at most 262144 are allowed" in script.message


def test_what_a_script_did_before_it_passes_a_limit_stays() -> None:
    script = life_of(pod(sh("echo one; sleep 5; " + DOUBLING)), {}).of("c0")
    assert script.lines[0] == (0.0, "one")
    assert script.seconds == 5.0


def test_the_containers_of_a_pod_share_their_budget() -> None:
    half = sh("echo " + "x" * 60_000)
    life = life_of(pod(half, half, half), {})
    assert [life.of(f"c{number}").reason for number in range(3)] == ["", "", "SimulationLimit"]


def test_a_pod_ends_when_one_of_its_containers_passes_a_limit() -> None:
    life = life_of(pod(sh("sleep 1000"), sh("sleep 3; " + DOUBLING)), {})
    assert life.seconds == 3.0
    assert life.decisive.reason == "SimulationLimit"


NUMBERS = {
    "more digits than 64 bits": ("exit $((99999999999999999999 + 1))", 0),
    "a product of 64 bits": ("A=4611686018427387904; A=$((A * 4)); exit $A", 0),
    "powers": ("A=99999999999999999; " + "A=$((A * A)); " * 40 + "exit 7", 7),
    "digits of other scripts": ("exit ²", 0),
    "an exit code of many digits": (f"exit {'9' * 5000}", 0),
    "a comparison of many digits": (f"[ {'9' * 5000} -gt 1 ] && exit 3", 3),
}


@pytest.mark.parametrize(("text", "code"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_of_any_length_are_read(text: str, code: int) -> None:
    assert life_of(pod(sh(text)), {}).exit_code == code


def test_a_sleep_longer_than_lives_never_ends() -> None:
    assert life_of(pod({"command": ["sleep", "9" * 400]}), {}).seconds is None


def cpu(text: str, budget: Budget) -> float:
    """The least of three, for others use the processor too."""
    spans = []
    for _ in range(3):
        began = time.process_time()
        for _ in shell.commands(text, {"A": "x" * 10}, budget):
            pass
        spans.append(time.process_time() - began)
    return min(spans)


class Endless(Budget):
    def spend(self, limit: Any, amount: int) -> None:
        """Growth must be linear even where no limit ends it."""


GROWING = {
    "one word": "x",
    "a quoted word": "'ab'",
    "words": "x ",
    "escapes": "\\\\",
    "commands": "a\n",
    "expansions": "$A ",
    "sums": "$((1+1))",
    "questions": "if [ -f a ]; then b; elif [ -f c ]; then exit 2; fi\n",
    "questions about the rest": "[ -f a ] || exit 1\n",
    "quotes without an end": "'\"",
    "dollars": "$(",
}


@pytest.mark.parametrize("text", GROWING.values(), ids=GROWING)
def test_reading_a_script_takes_time_in_proportion_to_its_length(text: str) -> None:
    count = 16_000 // len(text)
    spans = [cpu("echo " + text * (count * times), Endless()) for times in (1, 2, 4)]
    assert spans[2] < 4 * 3 * max(spans[0], 0.001), spans
