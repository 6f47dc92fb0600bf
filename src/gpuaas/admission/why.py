"""Why a job waits, or what it does instead of running: one reason, the evidence, and ways out.

Pure: objects in, an answer out. What quota decides is explained by the engine; the rest are things Kueue cannot see: a
queue that does not exist, a namespace it does not select, a flavor no node has, pods admitted to a place they cannot go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from gpuaas.admission.life import conditions_of, is_true
from gpuaas.admission.picture import Picture, engine_of
from gpuaas.base.selectors import from_label_selector
from gpuaas.engine.amounts import text
from gpuaas.engine.explain import Explanation, Numbers
from gpuaas.engine.reasons import Token
from gpuaas.engine.values import Millis

View = Mapping[str, Any]
_MOST_WAYS = 3


@dataclass(frozen=True, slots=True)
class Answer:
    subject: str
    state: str  # Running, Admitted, Pending, Finished, Evicted, Inactive
    reason: str  # one word
    sentence: str
    evidence: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()
    cluster_queue: str = ""
    position: int | None = None  # how many go before it

    def as_object(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "subject": self.subject,
            "state": self.state,
            "reason": self.reason,
            "sentence": self.sentence,
            "evidence": list(self.evidence),
            "waysOut": list(self.ways),
        }
        if self.cluster_queue:
            found["clusterQueue"] = self.cluster_queue
        if self.position is not None:
            found["position"] = self.position
        return found


def why(picture: Picture, workload: View, now: Millis) -> Answer:
    conditions = conditions_of(workload)
    for look in (_finished, _inactive, _leaving, _running, _checking, _unusable_queue, _unselected):
        answer = look(picture, workload, conditions)
        if answer is not None:
            return answer
    return _waiting(picture, workload, now)


def why_no_workload(job: View, kind: str, queues: list[View]) -> Answer:
    """A job that no queue has taken up."""
    meta = job["metadata"]
    subject = f"{kind}/{meta['name']}"
    queue = (meta.get("labels") or {}).get("kueue.x-k8s.io/queue-name")
    if queue:
        words = f"it names the queue {queue}, and its workload has not been made yet"
        return Answer(subject, "Pending", "NoWorkload", words, (), ("look again in a moment",))
    names = [each["metadata"]["name"] for each in queues]
    ways = tuple(f"label it: kueue.x-k8s.io/queue-name={name}" for name in names[:_MOST_WAYS])
    return Answer(subject, "Pending", "NoQueue", "it names no queue, so no quota is asked for it", (), ways)


def _subject(workload: View) -> str:
    owners = workload["metadata"].get("ownerReferences") or ()
    for owner in owners:
        if owner.get("controller"):
            return f"{owner['kind']}/{owner['name']}"
    return f"Workload/{workload['metadata']['name']}"


def _finished(_picture: Picture, workload: View, conditions: Mapping[str, Any]) -> Answer | None:
    found = conditions.get("Finished")
    if found is None or not is_true(found):
        return None
    return Answer(
        _subject(workload), "Finished", found["reason"], f"it has finished: {found.get('message') or found['reason']}"
    )


def _inactive(_picture: Picture, workload: View, conditions: Mapping[str, Any]) -> Answer | None:
    if (workload.get("spec") or {}).get("active", True):
        return None
    evicted = conditions.get("Evicted") or {}
    name = workload["metadata"]["name"]
    sentence = evicted.get("message") or "it was deactivated"
    return Answer(_subject(workload), "Inactive", "Deactivated", sentence, (), (f"gpuaas resume workload {name}",))


def _leaving(_picture: Picture, workload: View, conditions: Mapping[str, Any]) -> Answer | None:
    evicted = conditions.get("Evicted")
    if evicted is None or not is_true(evicted) or not is_true(conditions.get("QuotaReserved")):
        return None
    ways = ("it goes back to its queue by itself when its pods have gone",)
    return Answer(_subject(workload), "Evicted", evicted["reason"], evicted["message"], (), ways)


def _running(picture: Picture, workload: View, conditions: Mapping[str, Any]) -> Answer | None:
    if not is_true(conditions.get("Admitted")):
        return None
    queue = workload["status"]["admission"]["clusterQueue"]
    stuck = list(_stuck_pods(picture, workload))
    if not stuck:
        since = conditions["Admitted"]["lastTransitionTime"]
        return Answer(
            _subject(workload), "Running", "Admitted", f"it was admitted by {queue} at {since}", cluster_queue=queue
        )
    evidence = (*stuck, *_flavor_evidence(picture, workload))
    ways = (
        "make the flavor's node labels and the job's node selector agree",
        "add a node the flavor selects, or free one",
    )
    return Answer(
        _subject(workload),
        "Admitted",
        "AdmittedButUnplaceable",
        f"{queue} gave it quota, but no node can take its pods",
        evidence,
        ways,
        queue,
    )


def _stuck_pods(picture: Picture, workload: View) -> Iterator[str]:
    """What the scheduler says of pods of this workload that it cannot place."""
    owners = {owner.get("uid") for owner in workload["metadata"].get("ownerReferences") or ()}
    name = workload["metadata"]["name"]
    for pod in picture.pods:
        meta = pod["metadata"]
        if meta.get("namespace") != workload["metadata"]["namespace"]:
            continue
        mine = (meta.get("annotations") or {}).get("kueue.x-k8s.io/workload") == name
        mine = mine or any(owner.get("uid") in owners for owner in meta.get("ownerReferences") or ())
        mine = mine or meta.get("uid") in owners
        if not mine:
            continue
        for condition in (pod.get("status") or {}).get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                yield f"pod {meta['name']}: {condition.get('message') or condition.get('reason', '')}"


def _checking(_picture: Picture, workload: View, conditions: Mapping[str, Any]) -> Answer | None:
    if not is_true(conditions.get("QuotaReserved")):
        return None
    waiting = [each for each in workload["status"].get("admissionChecks") or () if each.get("state") != "Ready"]
    queue = workload["status"]["admission"]["clusterQueue"]
    names = ", ".join(each["name"] for each in waiting) or "its checks"
    evidence = tuple(f"{each['name']}: {each['state']} {each.get('message', '')}".rstrip() for each in waiting)
    sentence = f"{queue} reserved quota for it; it waits for {names}"
    return Answer(_subject(workload), "Pending", "WaitingForChecks", sentence, evidence, (), queue)


def _unusable_queue(picture: Picture, workload: View, _conditions: Mapping[str, Any]) -> Answer | None:
    namespace, name = workload["metadata"]["namespace"], (workload.get("spec") or {}).get("queueName", "")
    local = picture.local_queue(namespace, name)
    if local is None:
        return _missing_local_queue(picture, workload, namespace, name)
    cluster_name = local["spec"]["clusterQueue"]
    cluster = picture.cluster_queue(cluster_name)
    if cluster is None:
        near = _nearest(cluster_name, [each["metadata"]["name"] for each in picture.cluster_queues])
        sentence = f"its LocalQueue {name} leads to ClusterQueue {cluster_name}, which does not exist"
        return Answer(_subject(workload), "Pending", "QueueMissing", sentence, (), near)
    for kind, queue in (("localqueue", local), ("clusterqueue", cluster)):
        stop = (queue.get("spec") or {}).get("stopPolicy") or "None"
        if stop != "None":
            shown = queue["metadata"]["name"]
            sentence = f"{kind} {shown} is stopped ({stop})"
            return Answer(
                _subject(workload), "Pending", "QueueStopped", sentence, (), (f"gpuaas resume {kind} {shown}",)
            )
    active = next((c for c in (cluster.get("status") or {}).get("conditions") or () if c["type"] == "Active"), None)
    if active is not None and active["status"] == "False":
        return Answer(
            _subject(workload), "Pending", active["reason"], f"ClusterQueue {cluster_name}: {active['message']}"
        )
    return None


def _missing_local_queue(picture: Picture, workload: View, namespace: str, name: str) -> Answer:
    here = [each["metadata"]["name"] for each in picture.local_queues if each["metadata"]["namespace"] == namespace]
    evidence = (f"queues in {namespace}: {', '.join(here) or 'none'}",)
    return Answer(
        _subject(workload),
        "Pending",
        "QueueMissing",
        f"LocalQueue {name} doesn't exist in namespace {namespace}",
        evidence,
        _nearest(name, here),
    )


def _nearest(name: str, known: list[str]) -> tuple[str, ...]:
    near = get_close_matches(name, known, n=1, cutoff=0.4) or known[:1]
    return tuple(f"did you mean {each}?" for each in near)


def _unselected(picture: Picture, workload: View, _conditions: Mapping[str, Any]) -> Answer | None:
    namespace = workload["metadata"]["namespace"]
    local = picture.local_queue(namespace, (workload.get("spec") or {}).get("queueName", ""))
    cluster = picture.cluster_queue(local["spec"]["clusterQueue"]) if local is not None else None
    if cluster is None:
        return None
    selector = (cluster.get("spec") or {}).get("namespaceSelector")
    parsed = from_label_selector(selector)
    labels = ((picture.namespace(namespace) or {}).get("metadata") or {}).get("labels") or {}
    if parsed is not None and parsed.matches(labels):
        return None
    name = cluster["metadata"]["name"]
    wanted = ", ".join(f"{key}={value}" for key, value in ((selector or {}).get("matchLabels") or {}).items())
    ways = (f"kubectl label namespace {namespace} {wanted.replace(', ', ' ')}",) if wanted else ()
    evidence = (f"it selects {wanted or 'no namespace at all' if selector is None else wanted or selector}",)
    sentence = f"ClusterQueue {name} does not take workloads of namespace {namespace}"
    return Answer(_subject(workload), "Pending", "NamespaceMismatch", sentence, evidence, ways, name)


def _waiting(picture: Picture, workload: View, now: Millis) -> Answer:
    meta = workload["metadata"]
    engine = engine_of(picture)
    found = engine.explain(f"{meta['namespace']}/{meta['name']}", now)
    if found is None:
        return Answer(_subject(workload), "Pending", "Unknown", "nothing is known about it yet")
    evidence = (*_quota_evidence(found), *_flavor_evidence(picture, workload))
    ways = tuple(remedy.words for remedy in found.remedies)[:_MOST_WAYS]
    reason = found.token.value if found.token is not None else "Pending"
    return Answer(
        _subject(workload),
        "Pending",
        reason,
        _sentence(found),
        evidence,
        ways,
        found.cluster_queue or "",
        found.position,
    )


def _sentence(found: Explanation) -> str:
    """The one reason, short; upstream's whole message is in the workload's condition."""
    short = [each for each in found.numbers if each.missing > 0]
    if found.token is Token.EXCEEDS_MAX_QUOTA and short:
        worst = max(short, key=lambda each: each.capacity)
        asked, most = text(worst.resource, worst.requested), text(worst.resource, worst.capacity)
        return (
            f"it asks for {asked} {worst.resource}; ClusterQueue {found.cluster_queue} can never give more than {most}"
        )
    if found.token is Token.WAITING_FOR_QUOTA and short:
        best = min(short, key=lambda each: each.missing)
        missing = text(best.resource, best.missing)
        return f"{missing} more {best.resource} of flavor {best.flavor} would have to be free"
    return found.message or "it is about to be looked at"


def _quota_evidence(found: Explanation) -> Iterator[str]:
    if found.position is not None:
        yield f"position {found.position + 1} in ClusterQueue {found.cluster_queue}"
    short = [each for each in found.numbers if each.missing > 0]
    for numbers in short or found.numbers:
        yield numbers.line()
        yield from _holders(numbers)
    for key, rule in found.victims:
        yield f"would preempt {key} ({rule.value})"


def _holders(numbers: Numbers) -> Iterator[str]:
    for holder in numbers.holders[:3]:
        largest = ", ".join(f"{key} {text(numbers.resource, amount)}" for key, amount in holder.largest[:3])
        used, nominal = text(numbers.resource, holder.used), text(numbers.resource, holder.nominal)
        yield f"  held by {holder.cluster_queue}: {used} of its {nominal}" + (f" ({largest})" if largest else "")


def _flavor_evidence(picture: Picture, workload: View) -> Iterator[str]:
    """Flavors of its queue that no node has."""
    if not picture.nodes:
        return
    local = picture.local_queue(workload["metadata"]["namespace"], (workload.get("spec") or {}).get("queueName", ""))
    cluster = picture.cluster_queue(local["spec"]["clusterQueue"]) if local is not None else None
    for group in ((cluster or {}).get("spec") or {}).get("resourceGroups") or ():
        for each in group.get("flavors") or ():
            flavor = picture.flavor(each["name"])
            labels = ((flavor or {}).get("spec") or {}).get("nodeLabels") or {}
            if labels and not any(_has(node, labels) for node in picture.nodes):
                yield f"flavor {each['name']} matches none of {len(picture.nodes)} nodes{_nearest_label(picture, labels)}"


def _has(node: View, labels: Mapping[str, str]) -> bool:
    found = node["metadata"].get("labels") or {}
    return all(found.get(key) == value for key, value in labels.items())


def _nearest_label(picture: Picture, labels: Mapping[str, str]) -> str:
    for key, value in labels.items():
        have = sorted({(node["metadata"].get("labels") or {}).get(key, "") for node in picture.nodes} - {""})
        if value not in have:
            return f": they have {key}={'|'.join(have[:4]) or 'nothing'}, it wants {value}"
    return ""
