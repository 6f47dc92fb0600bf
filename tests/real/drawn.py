"""Queue cases nobody thought of: drawn by lot, the same for the same seed, and run like those that were written down.

A case sets up queues (alone or in a cohort, with limits, policies and priorities), then does what people do in an
afternoon: submits, deletes, resizes, moves, deactivates; after each step everything is looked at. Left out is what
upstream itself does now one way, now the other, or not at all (`queues/differences.toml`): queues on hold, and those that
leave a cohort.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.real import queues, script

QUEUES = ("a", "b", "c", "d")
PRIORITIES = {"low": 10, "middle": 50, "high": 100}
ANY, NEVER, LOWER, NEWER = "Any", "Never", "LowerPriority", "LowerOrNewerEqualPriority"


def cases(seed: int, count: int) -> list[script.Case]:
    return [queues.spelled(_Drawing(f"drawn-{seed}-{number}").case()) for number in range(count)]


class _Drawing:
    """One case, as it is drawn. It remembers what it has made, so that later steps have something to do it to."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._random = Random(name)
        self._lines: list[str] = []
        self._queues = QUEUES[: self._random.randint(1, len(QUEUES))]
        self._pooled = {queue: self._chance(0.7) for queue in self._queues}
        self._jobs: list[str] = []
        self._pods: list[str] = []
        self._sets: list[str] = []
        self._made = 0

    def case(self) -> script.Case:
        self._set_up()
        for _ in range(self._number(4)):
            self._job()
        self._lines.append("look")
        for _ in range(self._random.randint(4, 8)):
            self._random.choice(self._steps())()
            self._lines.append("look")
        return script.Case(self._name, "drawn by lot", tuple(self._lines), {})

    def _steps(self) -> list[Callable[[], None]]:
        steps = [self._job] * 8 + [self._pod, self._group, self._set, self._quota, self._move]
        if self._jobs:
            steps += [self._delete_job] * 2 + [
                self._active,
                self._active,
                self._reprioritise,
                self._resize,
                self._requeue,
            ]
        if self._pods:
            steps.append(self._delete_pod)
        if self._sets:
            steps += [self._scale, self._delete_set]
        return steps

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _one(self, *choices: str) -> str:
        return self._random.choice(choices)

    def _number(self, most: int) -> int:
        return self._random.randint(1, most)

    def _name_of(self, what: str) -> str:
        self._made += 1
        return f"{what}-{self._made}"

    # What there is before anybody submits.

    def _set_up(self) -> None:
        classes = "; ".join(f"./priority {name} {value}" for name, value in PRIORITIES.items())
        self._lines.append(f"(./flavor h100 NVIDIA-H100; ./flavor l4 NVIDIA-L4; {classes}) | kubectl apply -f -")
        if any(self._pooled.values()) and self._chance(0.4):
            self._lines.append(f"./cohort pool '' {self._number(4)} | kubectl apply -f -")
        for queue in self._queues:
            self._lines.append(f"{self._queue(queue)} | kubectl apply -f -")

    def _queue(self, name: str) -> str:
        told = [f"STRATEGY={self._one('BestEffortFIFO', 'BestEffortFIFO', 'StrictFIFO')}"]
        quota = self._random.randint(0, 6)
        policies = [f"withinClusterQueue: {self._one(NEVER, LOWER, NEWER)}"]
        if self._pooled[name]:
            told.append("COHORT=$NS-pool")
            reclaim = self._one(NEVER, LOWER, ANY)
            policies.append(f"reclaimWithinCohort: {reclaim}")
            if reclaim != NEVER and self._chance(0.4):
                policies.append("borrowWithinCohort: {policy: LowerPriority, maxPriorityThreshold: 50}")
            if self._chance(0.3):
                told.append(f"LIMIT={self._random.randint(0, 4)}")
            if self._chance(0.3):
                told.append(f"LENDS={self._random.randint(0, quota)}")
        told.append(f"PREEMPTION='{{{', '.join(policies)}}}'")
        more = f" {self._number(4)}" if self._chance(0.4) else ""
        if more:
            borrow, preempt = (self._one("MayStopSearch", "TryNextFlavor") for _ in range(2))
            told.append(f"FUNGIBILITY='{{whenCanBorrow: {borrow}, whenCanPreempt: {preempt}}}'")
        return f"{' '.join(told)} ./queue {name} {quota}{more}"

    # What people do.

    def _job(self) -> None:
        name, told = self._name_of("train"), []
        if self._chance(0.6):
            told.append(f"PRIORITY={self._one(*PRIORITIES)}")
        pods = self._number(3)
        told.append(f"PODS={pods}")
        if pods > 1 and self._chance(0.3):
            told.append(f"NOTES='kueue.x-k8s.io/job-min-parallelism: \"{self._number(pods - 1)}\"'")
        queue = self._one(*self._queues, *self._queues, "nowhere")
        self._lines.append(f"{' '.join(told)} ./job {name} {queue} {self._number(4)} | kubectl create -f -")
        self._jobs.append(name)

    def _pod(self) -> None:
        name = self._name_of("pod")
        self._lines.append(f"./pod {name} {self._one(*self._queues)} {self._number(3)} | kubectl create -f -")
        self._pods.append(name)

    def _group(self) -> None:
        group, queue, gpus = self._name_of("group"), self._one(*self._queues), self._number(2)
        parts = [f"GROUP={group} OF=2 ./pod {group}-{each} {queue} {gpus}" for each in "ab"]
        self._lines.append(f"({'; '.join(parts)}) | kubectl create -f -")

    def _set(self) -> None:
        name = self._name_of("serve")
        made = f"./set Deployment {name} {self._one(*self._queues)} 1 1"
        self._lines.append(f"{made} | kubectl create -f -")
        self._sets.append(name)

    def _delete_job(self) -> None:
        self._lines.append(f"kubectl delete job {self._taken(self._jobs)}")

    def _delete_pod(self) -> None:
        self._lines.append(f"kubectl delete pod {self._taken(self._pods)} --grace-period=0 --force")

    def _taken(self, names: list[str]) -> str:
        return names.pop(self._random.randrange(len(names)))

    def _scale(self) -> None:
        name = self._one(*self._sets)
        self._lines.append(f"kubectl scale deployment {name} --replicas={self._random.randint(0, 1)}")

    def _delete_set(self) -> None:
        self._lines.append(f"kubectl delete deployment {self._taken(self._sets)}")

    def _quota(self) -> None:
        path = "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota"
        change = f'[{{"op": "replace", "path": "{path}", "value": "{self._random.randint(0, 8)}"}}]'
        self._lines.append(
            f"@refused kubectl patch clusterqueue $NS-{self._one(*self._queues)} --type=json -p '{change}'"
        )

    def _move(self) -> None:
        change = '{\\"spec\\": {\\"cohortName\\": \\"$NS-pool\\"}}'
        self._lines.append(f'kubectl patch clusterqueue $NS-{self._one(*self._queues)} --type=merge -p "{change}"')

    def _active(self) -> None:
        change = f'{{"spec": {{"active": {self._one("true", "false")}}}}}'
        found = f"kubectl get workloads -o name | grep /job-{self._one(*self._jobs)}-"
        self._lines.append(f"@refused {found} | xargs -r -I% kubectl patch % --type=merge -p '{change}'")

    def _reprioritise(self) -> None:
        label = f"kueue.x-k8s.io/priority-class=$NS-{self._one(*PRIORITIES)}"
        self._lines.append(f"@refused kubectl label --overwrite job {self._one(*self._jobs)} {label}")

    def _resize(self) -> None:
        self._lines.append(f"@refused kubectl patch job {self._one(*self._jobs)} --type=merge "
                           f'-p \'{{"spec": {{"parallelism": {self._number(3)}}}}}\'')  # fmt: skip

    def _requeue(self) -> None:
        label = f"kueue.x-k8s.io/queue-name={self._one(*self._queues)}"
        self._lines.append(f"@refused kubectl label --overwrite job {self._one(*self._jobs)} {label}")
