"""Kill the server, supervisors and shells with SIGKILL while jobs run as processes of this machine.

`python -m tests.conformance.process_outage --jobs 200 --kills 20`. Every run of a job holds a file lock that all its
processes inherit, so that a second run beside a first one, or beside anything it left, notes the fact. Jobs whose
supervisor or shell is killed are run again or fail, as their policy says; all others run exactly once and end as they
should, however often the server is killed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.service import Service, eventually
from tests.conformance.wire import Closed

_JOBS = "/apis/batch/v1/namespaces/default/jobs"
_QUEUES = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/localqueues/this-machine"
_LEFT = "setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' &"


@dataclass
class Outcome:
    kills: int = 0
    hurt: int = 0  # supervisors and shells that were killed
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def report(self) -> str:
        return f"{self.kills} kills of the server, {self.hurt} of supervisors and shells, {self.seconds:.0f} s; {self.wrong}"


def job(number: int, folder: Path, seconds: float) -> dict[str, Any]:
    """Every third fails, every fourth leaves something behind, every fifth may be run again (and is what is hurt)."""
    name = f"job-{number:04}"
    again = number % 5 == 4
    code = 3 if number % 3 == 2 and not again else 0
    text = (
        f"exec 9>>{folder}/{name}.lock; flock -n 9 || echo {name} >> {folder}/twice; echo run >> {folder}/{name}.runs; "
        f"{_LEFT if number % 4 == 3 else ''} sleep {seconds:.2f}; exit {code}"
    )
    container = {
        "name": "main",
        "image": "none",
        "command": ["sh", "-c", text],
        "resources": {"requests": {"cpu": "10m", "memory": "1Mi"}},
    }
    policy = "OnFailure" if again else "Never"
    spec = {"restartPolicy": policy, "runtimeClassName": "gpuaas-process", "containers": [container]}
    labels = {"kueue.x-k8s.io/queue-name": "this-machine"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"backoffLimit": 1000 if again else 0, "template": {"spec": spec}},
    }


def run(folder: Path, count: int, kills: int, seed: int = 0, limit: float = 900.0) -> Outcome:
    chance, outcome, began = random.Random(seed), Outcome(), time.monotonic()
    notes = folder / "notes"
    notes.mkdir(parents=True)
    with Service(folder / "home") as service:
        eventually(lambda: service.ask("GET", _QUEUES).status == 200, "no queue for this machine")
        todo = [job(number, notes, chance.uniform(0.1, 2.0)) for number in range(count)][::-1]
        ended = 0
        while todo or ended < count:
            assert time.monotonic() - began < limit, f"{ended} of {count} ended: {outcome.report()}"
            try:
                for _ in range(min(len(todo), max(1, count // 20))):
                    answer = service.ask("POST", _JOBS, todo[-1])
                    assert answer.status in (201, 409), answer.body[:300]
                    todo.pop()
                ended = sum(_end(each) != "" for each in service.ask("GET", _JOBS).json()["items"])
            except (Closed, OSError):
                assert service.process is not None
                assert service.process.poll() is None, service.log.read_text()[-2000:]
            if outcome.hurt < kills:
                outcome.hurt += _hurt(service, notes, chance)
            if outcome.kills < kills and (count - len(todo) + ended) >= 2 * count * (outcome.kills + 0.5) / kills:
                time.sleep(chance.uniform(0.0, 0.2))  # the moment of the kill is what is tested
                service.kill()
                outcome.kills += 1
                if chance.random() < 0.3:
                    time.sleep(chance.uniform(0.0, 2.0))  # some end while it is away
                service.start()
            time.sleep(0.05)
        ends = {each["metadata"]["name"]: _end(each) for each in service.ask("GET", _JOBS).json()["items"]}
    outcome.wrong = judged(ends, notes)
    for pid in left_behind(notes):
        os.kill(pid, signal.SIGKILL)
    outcome.seconds = time.monotonic() - began
    return outcome


def judged(ends: dict[str, str], notes: Path) -> list[str]:
    wrong = [f"a second run beside {name}" for name in _lines(notes / "twice")]
    for name, end in ends.items():
        number, runs = int(name[4:]), len(_lines(notes / f"{name}.runs"))
        if number % 5 == 4:
            if not runs or end != "Complete":
                wrong.append(f"{name} was run {runs} times and is {end}")
        elif runs != 1 or end != ("Failed" if number % 3 == 2 else "Complete"):
            wrong.append(f"{name} was run {runs} times and is {end}")
    return wrong + [f"process {pid} was left behind" for pid in left_behind(notes)]


def left_behind(notes: Path) -> list[int]:
    """What still holds one of the locks."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                held = {str(one.readlink()) for one in (process / "fd").iterdir()}
            except OSError:
                continue
            if any(path.startswith(f"{notes}/") for path in held):
                found.append(int(process.name))
    return found


def _hurt(service: Service, notes: Path, chance: random.Random) -> int:
    """Kills the supervisor of a container that may be run again, or the shell below it."""
    pods = service.home / "pods" / "local"
    for pid in sorted(pods.glob("*/main/pid"), key=lambda _: chance.random()):
        try:
            supervisor = int(pid.read_text())
            shells = [int(each) for each in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()]
            words = Path(f"/proc/{shells[0]}/cmdline").read_text()
        except (OSError, ValueError, IndexError):
            continue
        started = words.find("job-")
        if started < 0 or int(words[started + 4 : started + 8]) % 5 != 4 or str(notes) not in words:
            continue
        try:
            os.kill(chance.choice([supervisor, shells[0]]), signal.SIGKILL)
        except ProcessLookupError:
            continue
        return 1
    return 0


def _lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def _end(job: Any) -> str:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((each["type"] for each in conditions if each["type"] in ("Complete", "Failed")), "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(Path(folder) / "run", options.jobs, options.kills, options.seed)
    print(outcome.report())
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
