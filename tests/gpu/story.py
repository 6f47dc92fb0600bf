"""What a real card does when gpuaas shares it, part by part. `python -m tests.gpu.story OUT [PART...]`; run.sh prepares
it.

Every part has a time limit and stands for itself: one that fails is reported with its reason, and the next one runs.
Nothing here changes MIG mode, compute mode or clocks.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conformance.gpu_machine import JOBS, MERGE, QUEUE, make, node, offered, phases, pods_of
from tests.conformance.service import Service, eventually
from tests.gpu.measure import first, last, lines, step_times

WORK = Path(__file__).with_name("work.py")
TOTAL = 525.0  # seconds for all parts
HOME = Path("/tmp/gpuaas-story")
_PARTS: list[tuple[str, float, Callable[[Story], dict[str, Any]]]] = []


def part(limit: float) -> Callable[[Callable[[Story], dict[str, Any]]], Callable[[Story], dict[str, Any]]]:
    def kept(run: Callable[[Story], dict[str, Any]]) -> Callable[[Story], dict[str, Any]]:
        _PARTS.append((run.__name__, limit, run))
        return run

    return kept


class TooLong(Exception):
    pass


class Story:
    def __init__(self, out: Path) -> None:
        self.out, self.began = out, time.monotonic()
        self.jobs = out / "jobs"
        self.jobs.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(HOME, ignore_errors=True)
        HOME.mkdir(mode=0o755)
        self.service = Service(HOME / "home")
        self.results: dict[str, Any] = {}
        self.outside: list[subprocess.Popen[bytes]] = []
        self._number = 0

    # Telling

    def say(self, *words: Any) -> None:
        line = f"[{time.monotonic() - self.began:6.1f}] " + " ".join(map(str, words))
        print(line, flush=True)
        with (self.out / "story.log").open("a") as file:
            file.write(line + "\n")

    def write(self) -> None:
        (self.out / "story.json").write_text(json.dumps(self.results, indent=1, default=str))

    # Jobs

    def file(self, name: str) -> Path:
        return self.jobs / f"{name}.jsonl"

    def submit(self, name: str, command: str, *arguments: Any, gpus: int = 1, grace: int = 30, **more: Any) -> str:
        """`more`: annotations, priority."""
        self._number += 1
        name = f"{name}-{self._number}"
        words = [sys.executable, str(WORK), command, str(self.file(name)), *map(str, arguments)]
        limits = {"nvidia.com/gpu": str(gpus), "cpu": "100m", "memory": "1Gi"}
        pod = {
            "restartPolicy": "Never",
            "runtimeClassName": "gpuaas-process",
            "terminationGracePeriodSeconds": grace,
            "containers": [{"name": "main", "image": "none", "command": words, "resources": {"limits": limits}}],
        }
        labels = {"kueue.x-k8s.io/queue-name": "this-machine"}
        if "priority" in more:
            labels["kueue.x-k8s.io/priority-class"] = more["priority"]
        template = {"metadata": {"annotations": more.get("annotations") or {}}, "spec": pod}
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"backoffLimit": 0, "template": template}}
        make(self.service, JOBS, body)
        return name

    def run_outside(self, name: str, command: str, *arguments: Any) -> str:
        """A process of its own, without gpuaas."""
        self._number += 1
        name = f"{name}-{self._number}"
        words = [sys.executable, str(WORK), command, str(self.file(name)), *map(str, arguments)]
        card = json.loads(node(self.service)["metadata"]["annotations"]["gpuaas.dev/cards"])[0]["uuid"]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": card}
        with (self.jobs / f"{name}.log").open("wb") as log:
            self.outside.append(subprocess.Popen(words, stdout=log, stderr=log, env=environment))
        return name

    def end_outside(self) -> None:
        for process in self.outside:
            process.kill()
            process.wait()
        self.outside.clear()

    def said(self, name: str) -> list[dict[str, Any]]:
        return lines(self.file(name))

    def until_says(self, name: str, key: str, limit: float = 40.0) -> Any:
        def found() -> Any:
            said = first(self.said(name), key)
            if said is None and not self.outside and phases(self.service).get(name) == "Failed":
                said = first(self.said(name), key)  # it may have said it last of all
                assert said is not None, f"{name} failed and never said {key}: {self.why(name)}"
            return [said] if said is not None else None

        return eventually(found, lambda: f"{name} never said {key}: {self.why(name)}", limit)[0]

    def until(self, name: str, *wanted: str, limit: float = 40.0) -> dict[str, Any]:
        """The job's newest pod in one of these phases."""
        eventually(
            lambda: phases(self.service).get(name) in wanted, lambda: f"{name} is not {wanted}: {self.why(name)}", limit
        )
        return pods_of(self.service)[name]

    def why(self, name: str) -> str:
        pod = pods_of(self.service).get(name)
        if pod is None:
            return f"it has no pod: {self.gpuaas('why', name)}"
        path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/log"
        log = self.service.ask("GET", path).body.decode(errors="replace")[-800:]
        return json.dumps({"status": pod["status"], "log": log}, default=str)[:3000]

    def keep_logs(self) -> None:
        for name, pod in pods_of(self.service).items():
            path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/log"
            (self.jobs / f"{name}.log").write_bytes(self.service.ask("GET", path).body)

    def clear(self) -> None:
        """No job is left, and nothing of one runs."""
        self.end_outside()
        self.keep_logs()
        for job in self.service.ask("GET", JOBS).json()["items"]:
            name = job["metadata"]["name"]
            self.service.ask("DELETE", f"{JOBS}/{name}", {"propagationPolicy": "Background", "gracePeriodSeconds": 0})
        for pod in pods_of(self.service).values():
            path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}?gracePeriodSeconds=0"
            self.service.ask("DELETE", path)
        eventually(lambda: not pods_of(self.service), "pods are left", 20)

    # Sharing

    def share(self, how: str, replicas: int = 0) -> None:
        """timeSlicing, mps, or nothing."""
        entry = {"name": "nvidia.com/gpu", "replicas": replicas}
        text = json.dumps({"version": "v1", **({"sharing": {how: {"resources": [entry]}}} if how else {})})
        maps, policies = "/api/v1/namespaces/gpu-operator/configmaps", "/apis/nvidia.com/v1/clusterpolicies"
        self.service.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "gpu-operator"}})
        body = {"metadata": {"name": "sharing"}, "data": {"any": text}}
        if self.service.ask("POST", maps, body).status != 201:
            assert self.service.ask("PATCH", f"{maps}/sharing", {"data": {"any": text}}, media=MERGE).status == 200
        parts = ("daemonsets", "dcgm", "dcgmExporter", "driver", "gfd", "nodeStatusExporter", "operator", "toolkit")
        spec = {**{each: {} for each in parts}, "devicePlugin": {"config": {"name": "sharing"}}}
        policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}}
        self.service.ask("POST", policies, {**policy, "spec": spec})
        wanted = str(replicas or 1)
        eventually(lambda: offered(self.service) == wanted, lambda: f"offered {offered(self.service)}", 15)
        eventually(lambda: self._quota() == wanted, lambda: f"the quota is {self._quota()}", 15)

    def _quota(self) -> str:
        groups = self.service.ask("GET", QUEUE).json()["spec"]["resourceGroups"]
        resources = groups[0]["flavors"][0]["resources"]
        return str(next(each["nominalQuota"] for each in resources if each["name"] == "nvidia.com/gpu"))

    def gpuaas(self, *words: str) -> str:
        environment = {**os.environ, "GPUAAS_HOME": str(HOME / "home")}
        command = [sys.executable, "-m", "gpuaas", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
        return (done.stdout + done.stderr).strip()

    def events(self, reason: str) -> list[str]:
        found = self.service.ask("GET", "/api/v1/events").json()["items"]
        return [one["message"] for one in found if one["reason"] == reason]

    def run(self, chosen: list[str]) -> bool:
        for name, limit, run in _PARTS:
            if chosen and name not in ("machine", *chosen):
                continue
            left = TOTAL - (time.monotonic() - self.began)
            if left < 15:
                self.results[name] = {"part": "skipped: no time was left"}
                self.say(name, "skipped")
                continue
            self.say("==", name)
            began = time.monotonic()
            signal.signal(signal.SIGALRM, _too_long)
            signal.alarm(int(min(limit, left)))
            try:
                result: dict[str, Any] = {"part": "ok", **run(self)}
            except BaseException as error:
                result = {
                    "part": f"failed: {type(error).__name__}: {error}"[:2000],
                    "where": traceback.format_exc()[-1500:],
                }
            signal.alarm(0)
            result["took_s"] = round(time.monotonic() - began, 1)
            self.results[name] = {**self.results.get(name, {}), **result}
            self.say(name, json.dumps(self.results[name], default=str)[:1500])
            self.write()
            try:
                if self.service.process is not None:
                    self.clear()
            except BaseException as error:
                self.say("clearing failed:", error)
        return all(one["part"] == "ok" for one in self.results.values())


def _too_long(*_: Any) -> None:
    raise TooLong("the part took longer than its limit")


# -- Parts ----------------------------------------------------------------------------------------------------------------


@part(40)
def machine(story: Story) -> dict[str, Any]:
    """What there is, and whether gpuaas starts on it."""

    def said(*command: str) -> str:
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout.strip()
        except OSError as error:
            return str(error)

    began = time.monotonic()
    story.service.start()
    ready = time.monotonic() - began
    eventually(lambda: offered(story.service) is not None, "no card is offered", 10)
    found = node(story.service)
    return {
        "smi": said(
            "nvidia-smi",
            "--query-gpu=name,uuid,memory.total,driver_version,mig.mode.current,compute_mode",
            "--format=csv",
        ),
        "cc": shutil.which("cc"),
        "mps": shutil.which("nvidia-cuda-mps-control"),
        "ready_s": round(ready, 2),
        "offered": offered(story.service),
        "annotations": found["metadata"]["annotations"],
        "labels": {k: v for k, v in found["metadata"]["labels"].items() if k.startswith("nvidia.com/")},
        "library": [path.name for path in (HOME / "home" / "native").glob("*")],
        "gpus": story.gpuaas("gpus", "--cards"),
        "doctor": story.gpuaas("doctor"),
        "log": (HOME / "home.log").read_text()[-1500:],
    }


@part(20)
def nvml_fields(story: Story) -> dict[str, Any]:
    """What NVML answers to the calls the product makes, to hold against the stand-in of the tests."""
    from gpuaas.telemetry.nvml import Nvml

    nvml = Nvml.open()
    card = nvml.cards()[0]
    uuid = card.uuid
    asked: dict[str, Any] = {}
    for name, call in {
        "machine": nvml.machine,
        "processes": lambda: nvml.processes(uuid),
        "memory": lambda: nvml.memory(uuid),
        "temperature": lambda: nvml.temperature(uuid),
        "utilization": lambda: nvml.utilization(uuid),
        "lost": lambda: nvml.lost(uuid),
        "broken_rows": lambda: nvml.broken_rows(uuid),
    }.items():
        began = time.perf_counter()
        try:
            answer = repr(call())
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        asked[name] = {"answer": answer, "ms": round((time.perf_counter() - began) * 1000, 3)}
    nvml.close()
    return {"card": repr(card), "reserved_mib": card.reserved_mib, "calls": asked}


@part(60)
def whole_card(story: Story) -> dict[str, Any]:
    name = story.submit("whole-steps", "steps", 8)
    waiting = story.submit("whole-small", "small", 4)  # waits for the card: two jobs never share it by chance
    story.until_says(name, "ready")
    alone = phases(story.service).get(waiting)
    story.until_says(name, "done", 30)
    story.until_says(waiting, "launches", 40)
    return {
        "steps": step_times(story.file(name)),
        "small_launches_in_4_s": first(story.said(waiting), "launches"),
        "second_job_meanwhile": alone or "no pod: not admitted",
        "total_memory_seen": first(story.said(name), "total"),
    }


@part(60)
def time_slicing(story: Story) -> dict[str, Any]:
    story.share("timeSlicing", 4)
    return _side_by_side(story)


def _side_by_side(story: Story) -> dict[str, Any]:
    """Two step loops at once, then four loops of small kernels."""
    names = [story.submit(f"steps{n}", "steps", 12) for n in range(2)]
    began = max(_ready_at(story, name) for name in names)
    for name in names:
        story.until_says(name, "done", 30)
    ended = min(said["at"] for name in names for said in story.said(name) if "done" in said)
    smalls = [story.submit(f"small{n}", "small", 4) for n in range(4)]
    for name in smalls:
        story.until_says(name, "launches", 40)
    held = pods_of(story.service)[names[0]]["metadata"]["annotations"].get("gpuaas.dev/devices")
    return {
        "two_at_once": [step_times(story.file(name), began, ended) for name in names],
        "four_small_launches_in_4_s": [first(story.said(name), "launches") for name in smalls],
        "memory_seen_gib": round((first(story.said(names[0]), "total") or 0) / (1 << 30), 2),
        "devices": held,
    }


def _ready_at(story: Story, name: str) -> float:
    story.until_says(name, "ready")
    return float(next(one["at"] for one in story.said(name) if "ready" in one))


@part(110)
def neighbour(story: Story) -> dict[str, Any]:
    """A step loop beside one that exceeds its budget, one that passes the library by, one that faults, one that is killed."""
    story.share("timeSlicing", 4)
    keeper, found = story.submit("neighbour", "steps", 75), {}
    began = _ready_at(story, keeper)
    time.sleep(4)
    path = story.file(keeper)
    found["alone"] = step_times(path, began + 0.5, time.time())

    def beside(label: str, since: float) -> None:
        time.sleep(0.5)
        found.setdefault("beside", {})[label] = step_times(path, since, time.time())

    asked = {"gpuaas.dev/gpu-memory": "12Gi"}
    name = story.submit("over", "hog", 3, annotations=asked)
    since = _ready_at(story, name)
    story.until_says(name, "done", 30)
    beside("exceeds its budget", since)
    found["library"] = [one for one in story.said(name) if "gib" in one or "info" in one]

    name = story.submit("bypass", "bypass", annotations=asked)
    since = _ready_at(story, name)
    pod = story.until(name, "Failed", limit=20)
    beside("passes the library by", since)
    found["guard"] = {
        "reason": pod["status"].get("reason"),
        "message": pod["status"].get("message"),
        "gib_when_ended": last(story.said(name), "gib"),
        "seconds_from_12_gib_to_end": _seconds_over(story.said(name), 12),
    }

    name = story.submit("fault", "fault", 1)
    since = _ready_at(story, name)
    story.until(name, "Failed", limit=20)
    beside("faults", since)
    found["fault"] = [one for one in story.said(name) if "result" in one or "loaded" in one]

    name = story.submit("killed", "steps", 30)
    since = _ready_at(story, name)
    pid = first(story.said(name), "pid")
    time.sleep(1)
    killed = time.time()
    os.kill(int(pid), signal.SIGKILL)
    story.until(name, "Failed", limit=20)
    beside("computes too, before its kill", since)
    time.sleep(2)
    beside("after its kill", killed + 0.3)
    found["neighbour_lives"] = phases(story.service).get(keeper)
    found["xid"] = {
        "events": story.events("GPUApplicationFault"),
        "offered_after": offered(story.service),
        "faults_of_the_node": node(story.service)["metadata"]["annotations"].get("gpuaas.dev/card-faults"),
    }
    return found


def _seconds_over(said: list[dict[str, Any]], gib: int) -> float | None:
    over = [one["at"] for one in said if one.get("gib", 0) > gib]
    return round(over[-1] - over[0], 3) if over else None


@part(80)
def thousand_allocations(story: Story) -> dict[str, Any]:
    """None refused while others try to fill the card, with budgets; and without gpuaas, for comparison."""
    story.share("timeSlicing", 4)
    hogs = [story.submit(f"filler{n}", "hog", 60) for n in range(2)]
    for name in hogs:
        story.until_says(name, "ready")
    name = story.submit("allocations", "allocations", 1000)
    story.until_says(name, "allocations", 50)
    found: dict[str, Any] = {"budgets_on": last(story.said(name), "refused"), "on": story.said(name)[-1]}
    found["fillers_got_gib"] = [last(story.said(hog), "gib") for hog in hogs]
    story.clear()
    hogs = [story.run_outside(f"free-filler{n}", "hog", 60) for n in range(2)]
    for hog in hogs:
        story.until_says(hog, "ready")
    name = story.run_outside("free-allocations", "allocations", 1000)
    story.until_says(name, "allocations", 50)
    return {**found, "budgets_off": last(story.said(name), "refused"), "off": story.said(name)[-1]}


@part(60)
def adoption(story: Story) -> dict[str, Any]:
    """kill -9 of gpuaas: jobs go on, are found again with their devices, and the guard resumes."""
    story.share("timeSlicing", 4)
    asked = {"gpuaas.dev/gpu-memory": "12Gi"}
    name = story.submit("survivor", "steps", 40)
    began = _ready_at(story, name)
    before = pods_of(story.service)[name]["metadata"]
    late = story.submit("late", "hold", 1, annotations=asked)
    story.until_says(late, "ready")
    story.service.kill()
    time.sleep(2)
    again = time.monotonic()
    story.service.start()
    ready = time.monotonic() - again
    after = pods_of(story.service)[name]["metadata"]
    over = story.submit("over-again", "bypass", annotations=asked)
    pod = story.until(over, "Failed", limit=30)
    story.until_says(name, "done", 40)
    story.until(name, "Succeeded", limit=10)
    return {
        "ready_again_s": round(ready, 2),
        "same_pod": before["uid"] == after["uid"],
        "same_devices": before["annotations"]["gpuaas.dev/devices"] == after["annotations"]["gpuaas.dev/devices"],
        "steps": step_times(story.file(name), began),
        "guard_after": {"reason": pod["status"].get("reason"), "message": pod["status"].get("message")},
    }


@part(50)
def foreign_process(story: Story) -> dict[str, Any]:
    """A process outside gpuaas is shown, and its card takes no work."""
    name = story.run_outside("stranger", "hold", 3)
    story.until_says(name, "ready")
    eventually(lambda: offered(story.service) == "0", lambda: f"offered {offered(story.service)}", 15)
    waiting = story.submit("waits", "small", 1)
    time.sleep(1)
    found = {
        "gpus": story.gpuaas("gpus", "--cards"),
        "why": story.gpuaas("why", waiting),
        "phase": phases(story.service).get(waiting) or "no pod",
        "annotation": node(story.service)["metadata"]["annotations"].get("gpuaas.dev/gpu-foreign"),
    }
    story.end_outside()
    story.until_says(waiting, "launches", 40)
    return found


@part(90)
def mps(story: Story) -> dict[str, Any]:
    story.share("mps", 4)
    story.results["mps"] = {"first": "started"}
    found = _side_by_side(story)
    keeper = story.submit("mps-neighbour", "steps", 15)
    _ready_at(story, keeper)
    name = story.submit("mps-over", "hog", 2, annotations={"gpuaas.dev/gpu-memory": "12Gi"})
    since = _ready_at(story, name)
    story.until_says(name, "done", 30)
    return {
        **found,
        "over": [one for one in story.said(name) if "gib" in one or "info" in one],
        "neighbour_meanwhile": step_times(story.file(keeper), since, time.time()),
        "events": story.events("MPSDaemonStarted"),
    }


@part(120)
def mps_fault(story: Story) -> dict[str, Any]:
    """One client faults: all pods end with that reason and return to the queue without losing a retry. The second fault
    within an hour makes them run one by one, until the culprit faults alone and pays for it."""
    story.share("mps", 4)
    innocent = [story.submit(f"innocent{n}", "steps", 8) for n in range(2)]
    for name in innocent:
        _ready_at(story, name)
    pods = {name: pods_of(story.service)[name]["metadata"]["uid"] for name in innocent}
    culprit = story.submit("culprit", "fault", 1)
    story.until_says(culprit, "ready")
    eventually(lambda: story.events("GPUFaultOnMPSCard"), "the fault was not noticed", 20)
    for name in innocent:
        story.until(name, "Succeeded", limit=60)
    paid = story.until(culprit, "Failed", limit=60)
    workloads = story.service.ask("GET", "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads").json()["items"]
    return {
        "events": sorted(set(story.events("GPUFaultOnMPSCard"))),
        "run_again": {name: pods_of(story.service)[name]["metadata"]["uid"] != uid for name, uid in pods.items()},
        "evictions": {one["metadata"]["name"]: one["status"].get("schedulingStats") for one in workloads},
        "culprit": {"reason": paid["status"].get("reason"), "message": paid["status"].get("message")},
        "culprit_faulted": len([one for one in story.said(culprit) if "result" in one or "ready" in one]),
    }


@part(80)
def checkpoint(story: Story) -> dict[str, Any]:
    """A training loop is preempted, saves on its signal, and goes on from there."""
    story.share("")
    classes = "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses"
    for name, value in (("low", 10), ("high", 1000)):
        kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
        body = {**kind, "metadata": {"name": name}, "value": value, "description": f"{name} priority"}
        make(story.service, classes, body)
    preemption = {"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}}
    assert story.service.ask("PATCH", QUEUE, preemption, media=MERGE).status == 200
    saved = story.jobs / "training.pt"
    signals = {"gpuaas.dev/checkpoint-signal": "SIGUSR1"}
    name = story.submit("training", "train", saved, annotations=signals, priority="low")
    story.until_says(name, "ready")
    time.sleep(2)
    urgent = story.submit("urgent", "steps", 3, priority="high")
    story.until_says(name, "saved", 20)
    story.until_says(urgent, "done", 40)
    eventually(lambda: len([one for one in story.said(name) if "first" in one]) > 1, "it never went on", 40)
    saved.with_suffix(".stop").touch()
    story.until_says(name, "done", 20)
    starts = [one["first"] for one in story.said(name) if "first" in one]
    return {
        "starts_at_step": starts,
        "saved_at_step": first(story.said(name), "saved"),
        "goes_on_where_it_was": starts[1] == first(story.said(name), "saved"),
        "weights_right": last(story.said(name), "right"),
        "events": story.events("CheckpointSignal"),
    }


def main() -> int:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    story = Story(out)
    try:
        good = story.run(sys.argv[2:])
    finally:
        story.end_outside()
        try:
            story.service.stop()
        except BaseException as error:
            story.say("stopping failed:", error)
        for log in (HOME / "home.log", HOME / "home" / "gpuaas.log"):
            if log.exists():
                shutil.copy(log, out / log.name)
        for log in (HOME / "home" / "mps").glob("*/log/*.log"):
            shutil.copy(log, out / f"mps-{log.name}")
        story.write()
    story.say("all parts ok" if good else "some parts failed")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
