"""Why a job waits, or what it does instead of running: one reason, the evidence, and ways out.

Pure: objects in, an answer out. What quota decides is explained by the engine; the rest are things Kueue cannot see: a
queue that does not exist, a namespace it does not select, a flavor no node has, pods admitted to a place they cannot go.
The looks below go from what settles the matter to what is left; the figures are put into words in `why_evidence`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gpuaas.api.owner import owner_named
from gpuaas.base.selectors import from_label_selector
from gpuaas.engine.explain import Explanation
from gpuaas.engine.reasons import Token
from gpuaas.engine.values import Millis
from gpuaas.kueue.explain.closed_cards import closed_cards, ways_to_open
from gpuaas.kueue.explain.evidence import (
    fewer_would_do,
    flavor_lines,
    flavors_without_nodes,
    given_flavors,
    larger_than_nodes,
    mismatched,
    no_node_has,
    outgrown,
    quota_lines,
    sentence,
    uncovered,
    ways_out,
)
from gpuaas.kueue.explain.hidden_usage import NAMESPACE as HIDDEN_NAMESPACE
from gpuaas.kueue.explain.hidden_usage import in_words
from gpuaas.kueue.explain.remedies import (
    PRIORITY_LABEL,
    QUEUE_LABEL,
    activating,
    agreeing,
    answering,
    higher_priority,
    less_close,
    minimum_along,
    nearest,
    new_local_queue,
    other_queue,
    placing,
    queued,
    relabelled,
    selected,
    selecting,
)
from gpuaas.kueue.explain.snapshot import Picture, engine_of, owner_of, pods_of, state_of
from gpuaas.kueue.multikueue.explain import dispatch_lines
from gpuaas.kueue.workload_state import conditions_of, is_kept_out, is_true

View = Mapping[str, Any]
_MOST_WAYS = 3
_NOT_DISPATCHED = "No multikueue adapter found"
_NO_SIZE_WOULD_DO = (Token.EXCEEDS_MAX_QUOTA, Token.NO_MATCHING_FLAVOR, Token.TOPOLOGY)  # other things come first


@dataclass(frozen=True, slots=True)
class Answer:
    subject: str
    state: str  # as `ps` shows it
    reason: str  # one word
    sentence: str
    evidence: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()
    cluster_queue: str = ""
    position: int | None = None  # how many go before it
    owner: str = ""  # the user who created it

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
        if self.owner:
            found["owner"] = self.owner
        return found


Explain = Callable[[str, Millis], Explanation | None]
"""What keeps the workload of this key (`namespace/name`) waiting, as an engine sees it."""


def why(picture: Picture, workload: View, now: Millis, explain: Explain | None = None) -> Answer:
    """`explain`: of an engine that stands where the cluster stands; without it one is made from the picture."""
    return replace(_why(picture, workload, now, explain), owner=owner_named(workload))


def _why(picture: Picture, workload: View, now: Millis, explain: Explain | None) -> Answer:
    conditions = conditions_of(workload)
    for look in (_finished, _leaving, _inactive, _running, _checking, _unseen, _unusable_queue, _unselected):
        answer = look(picture, workload, conditions)
        if answer is not None:
            return answer
    answer = _waiting(picture, workload, conditions, now, explain)
    evidence, ways = tuple(map(in_words, answer.evidence)), tuple(map(in_words, answer.ways))
    return replace(answer, sentence=in_words(answer.sentence), evidence=evidence, ways=ways)


def why_no_workload(job: View, kind: str, queues: Sequence[View], *, priorities: list[str] | None = None) -> Answer:
    """A job that has no workload: it names no queue, or none could be made."""
    return replace(_why_no_workload(job, kind, queues, priorities), owner=owner_named(job))


def _why_no_workload(job: View, kind: str, queues: Sequence[View], priorities: list[str] | None) -> Answer:
    meta, spec = job["metadata"], job.get("spec") or {}
    subject = f"{kind}/{meta['name']}"
    labels = meta.get("labels") or {}
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            state = "Failed" if condition["type"] == "Failed" else "Succeeded"
            return Answer(subject, state, state, f"it has finished: {condition.get('message') or state}")
    queue, name, namespace = labels.get(QUEUE_LABEL), meta["name"], meta.get("namespace", "")
    names = [each["metadata"]["name"] for each in queues]
    here = f"queues in {namespace}: {', '.join(names) or 'none'}"
    if "kubeflow-resource-stopped" in (meta.get("annotations") or {}):
        way = f"kubectl annotate {kind.lower()} {name} -n {namespace} kubeflow-resource-stopped-"
        return Answer(subject, "Stopped", "StoppedByUser", "its user stopped it", (), (way,))
    if queue:
        wanted = labels.get(PRIORITY_LABEL)
        if wanted and priorities is not None and wanted not in priorities:
            words = f"WorkloadPriorityClass {wanted} doesn't exist, so no workload can be made for it"
            known = (f"there are: {', '.join(priorities) or 'none'}",)
            near = nearest(wanted, priorities)
            relabel = (relabelled(kind, name, namespace, PRIORITY_LABEL, near),) if near else ()
            return Answer(subject, "Pending", "PriorityClassMissing", words, known, relabel)
        if spec.get("suspend") is False:
            words = (
                f"it names the queue {queue}, but Kueue does not manage it: its namespace or its kind is not managed"
            )
            way = f"kubectl label namespace {namespace} kueue.openshift.io/managed=true"
            return Answer(subject, "Unmanaged", "NotManaged", words, (here,), (way,))
        words = f"it names the queue {queue}, and its workload has not been made yet"
        return Answer(subject, "Pending", "NoWorkload", words, (here,), ("look again in a moment",))
    held = bool(spec.get("suspend"))
    ways = tuple(queued(kind, name, namespace, each, runs=not held) for each in names[:_MOST_WAYS])
    if held:
        words = "it is suspended and names no queue: no controller will start it"
        return Answer(subject, "Suspended", "Suspended", words, (here,), ways)
    words = "it names no queue: quota neither holds nor protects it"
    return Answer(subject, "Unmanaged", "NoQueue", words, (here,), ways)


def _subject(workload: View) -> str:
    return "/".join(owner_of(workload))


def _finished(_picture: Picture, workload: View, conditions: Mapping[str, Any]) -> Answer | None:
    found = conditions.get("Finished")
    if found is None or not is_true(found):
        return None
    words = f"it has finished: {found.get('message') or found['reason']}"
    failed = found["reason"] == "Failed"
    ways = (f"gpuaas logs {owner_of(workload)[1]} -n {workload['metadata']['namespace']}",) if failed else ()
    return Answer(_subject(workload), state_of(workload), found["reason"], words, (), ways)


def _leaving(picture: Picture, workload: View, conditions: Mapping[str, Any]) -> Answer | None:
    evicted = conditions.get("Evicted")
    if evicted is None or not is_true(evicted) or not is_true(conditions.get("QuotaReserved")):
        return None
    active = (workload.get("spec") or {}).get("active", True)
    ways = ("it goes back to its queue by itself when its pods have gone",) if active else ()
    words = _named(picture, _told(evicted["message"]))
    return Answer(_subject(workload), "Evicted", evicted["reason"], words, (), ways)


def _inactive(_picture: Picture, workload: View, conditions: Mapping[str, Any]) -> Answer | None:
    if (workload.get("spec") or {}).get("active", True):
        return None
    evicted = conditions.get("Evicted") or {}
    name, namespace = workload["metadata"]["name"], workload["metadata"]["namespace"]
    words = f"it was deactivated, and stays so until it is resumed: {_told(evicted.get('message') or 'by its user')}"
    ways = (f"gpuaas resume workload {name} -n {namespace}",)
    if _NOT_DISPATCHED in str(evicted.get("message")):
        ways = ("MultiKueue dispatches no jobs of this kind: submit it on a worker, or to a queue without the check",)
    return Answer(_subject(workload), "Inactive", "Deactivated", words, tuple(_tried(workload)), ways)


def _running(picture: Picture, workload: View, conditions: Mapping[str, Any]) -> Answer | None:
    if not is_true(conditions.get("Admitted")):
        return None
    admission = workload["status"]["admission"]
    queue = admission["clusterQueue"]
    stuck = tuple(_stuck_pods(picture, workload))
    if not stuck:
        since = conditions["Admitted"]["lastTransitionTime"]
        state = state_of(workload)
        words = f"it was admitted by ClusterQueue {queue} at {since}"
        words += "" if state == "Running" else "; its pods are not all ready yet"
        evidence = (*_places(workload), *dispatch_lines(workload))
        return Answer(_subject(workload), state, "Admitted", words, evidence, (), queue)
    unmatched = {name: line for name in given_flavors(workload) for line in no_node_has(picture, name)}
    words = f"ClusterQueue {queue} gave it quota, but no node can take its pods"
    lines = tuple(f"pod {pod['metadata']['name']}: {said}" for pod, said in stuck)
    evidence = (*_once(lines), *_places(workload), *closed_cards(picture, workload), *unmatched.values())
    ways = (*ways_to_open(picture, workload), *placing(picture, workload, stuck, list(unmatched)))[:_MOST_WAYS]
    return Answer(_subject(workload), "Admitted", "AdmittedButUnplaceable", words, evidence, ways, queue)


def _places(workload: View) -> Iterator[str]:
    for each in ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or ():
        flavors = sorted(set((each.get("flavors") or {}).values()))
        if flavors:
            yield f"pod set {each['name']}: {each.get('count', 1)} pods on flavor {', '.join(flavors)}"


def _stuck_pods(picture: Picture, workload: View) -> Iterator[tuple[View, str]]:
    """What the scheduler says of pods of this workload that it cannot place."""
    for pod in pods_of(picture, workload):
        for condition in (pod.get("status") or {}).get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                said = str(condition.get("message") or condition.get("reason", ""))
                brief = said.partition(" preemption: ")[0].removesuffix(" no new claims to deallocate,")
                yield pod, brief


def _once(lines: tuple[str, ...]) -> Iterator[str]:
    """The same complaint of many pods, once."""
    by_words: dict[str, list[str]] = {}
    for line in lines:
        pod, _, words = line.partition(": ")
        by_words.setdefault(words, []).append(pod)
    for words, pods in by_words.items():
        others = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
        yield f"{pods[0]}{others}: {words}"


def _checking(picture: Picture, workload: View, conditions: Mapping[str, Any]) -> Answer | None:
    if not is_true(conditions.get("QuotaReserved")):
        return None
    waiting = [each for each in workload["status"].get("admissionChecks") or () if each.get("state") != "Ready"]
    queue = workload["status"]["admission"]["clusterQueue"]
    names = ", ".join(each["name"] for each in waiting) or "its checks"
    evidence = tuple(f"check {each['name']}: {each['state']} {each.get('message', '')}".rstrip() for each in waiting)
    evidence += tuple(dispatch_lines(workload))
    words = f"ClusterQueue {queue} reserved quota for it; it waits for {names}"
    ways = tuple(answering(picture, workload, each["name"]) for each in waiting[:_MOST_WAYS])
    return Answer(_subject(workload), "Reserved", "WaitingForChecks", words, evidence, ways, queue)


def _unseen(picture: Picture, workload: View, conditions: Mapping[str, Any]) -> Answer | None:
    """Who may not see the quotas gets what the workload itself says."""
    hidden = picture.hidden & {"cluster_queues", "local_queues", "flavors", "namespaces"}
    if not hidden:
        return None
    said = (conditions.get("QuotaReserved") or {}).get("message") or "it was not in a scheduling cycle yet"
    evidence = (f"you may not list {', '.join(sorted(hidden)).replace('_', ' ')}: there is no more to see",)
    return Answer(_subject(workload), "Pending", "Pending", _told(said), (*evidence, *_before(picture, conditions)))


def _unusable_queue(picture: Picture, workload: View, _conditions: Mapping[str, Any]) -> Answer | None:
    namespace, name = workload["metadata"]["namespace"], (workload.get("spec") or {}).get("queueName", "")
    local = picture.local_queue(namespace, name)
    if local is None:
        return _missing_local_queue(picture, workload, namespace, name)
    cluster_name = local["spec"]["clusterQueue"]
    cluster = picture.cluster_queue(cluster_name)
    if cluster is None:
        known = [each["metadata"]["name"] for each in picture.cluster_queues]
        sentence = f"its LocalQueue {name} leads to ClusterQueue {cluster_name}, which does not exist"
        near = nearest(cluster_name, known)
        again = f"delete LocalQueue {name} and make it again for ClusterQueue {near}: where it leads cannot be changed"
        evidence = (f"ClusterQueues: {', '.join(known) or 'none'}",)
        return Answer(_subject(workload), "Pending", "QueueMissing", sentence, evidence, (again,) if near else ())
    for kind, queue in (("localqueue", local), ("clusterqueue", cluster)):
        stop = (queue.get("spec") or {}).get("stopPolicy") or "None"
        if stop != "None":
            shown, at = queue["metadata"]["name"], f" -n {namespace}" if kind == "localqueue" else ""
            sentence = f"{kind} {shown} is stopped ({stop})"
            return Answer(
                _subject(workload), "Pending", "QueueStopped", sentence, (), (f"gpuaas resume {kind} {shown}{at}",)
            )
    active = next((c for c in (cluster.get("status") or {}).get("conditions") or () if c["type"] == "Active"), None)
    if active is not None and active["status"] == "False":
        words = f"ClusterQueue {cluster_name} is not active: {active['message']}"
        ways = tuple(activating(picture, cluster))[:_MOST_WAYS]
        return Answer(_subject(workload), "Pending", active["reason"], words, (), ways)
    return None


def _missing_local_queue(picture: Picture, workload: View, namespace: str, name: str) -> Answer:
    here = [each["metadata"]["name"] for each in picture.local_queues if each["metadata"]["namespace"] == namespace]
    evidence = (f"queues in {namespace}: {', '.join(here) or 'none'}",)
    near = nearest(name, here)
    ways = tuple(other_queue(workload, each) for each in ([near] if near else here)[:_MOST_WAYS])
    ways = ways or (new_local_queue(picture, namespace, name),)
    words = f"LocalQueue {name} doesn't exist in namespace {namespace}"
    return Answer(_subject(workload), "Pending", "QueueMissing", words, evidence, ways)


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
    ways = tuple(selecting(picture, workload, cluster))[:_MOST_WAYS]
    evidence = (f"it selects {selected(cluster)}",)
    sentence = f"ClusterQueue {name} does not take workloads of namespace {namespace}"
    return Answer(_subject(workload), "Pending", "NamespaceMismatch", sentence, evidence, ways, name)


def _waiting(
    picture: Picture, workload: View, conditions: Mapping[str, Any], now: Millis, explain: Explain | None
) -> Answer:
    meta = workload["metadata"]
    subject = _subject(workload)
    found = (explain or engine_of(picture).explain)(f"{meta['namespace']}/{meta['name']}", now)
    if found is None:
        return Answer(subject, "Pending", "Unknown", "nothing is known about it yet", (), ("look again in a moment",))
    reason = found.token.value if found.token is not None else "Pending"
    words = sentence(found)
    if found.token is Token.BACKING_OFF:
        until = ((workload.get("status") or {}).get("requeueState") or {}).get("requeueAt")
        words = f"it backs off until {until}" if until else "it backs off until its last eviction is dealt with"
        if not until and is_kept_out(conditions):
            words = (
                "it is active again, but kept out as when it was deactivated: Kueue lets in only what a user stopped"
            )
    large = dict(larger_than_nodes(picture, workload)) if found.token not in _NO_SIZE_WOULD_DO else {}
    before = _before(picture, conditions)
    quota = (*quota_lines(found), *fewer_would_do(picture, workload))
    closed = closed_cards(picture, workload)
    evidence = (*quota, *closed, *before, *_tried(workload), *large.values(), *flavor_lines(picture, workload))
    smaller = (f"less {resource} in each pod, and more pods" for resource in large)
    opening = ways_to_open(picture, workload) if closed else ()
    ways = (*opening, *smaller, *_ways(picture, workload, found))[:_MOST_WAYS]
    if found.token is Token.BACKING_OFF and is_kept_out(conditions):
        ways = (f"gpuaas resume workload {meta['name']} -n {meta['namespace']}",)
    queue = found.cluster_queue or ""
    if found.token is Token.BEHIND_OTHERS and found.position and _is_strict(picture, queue):
        first = found.first
        words = (
            f"it would fit, but ClusterQueue {queue} is StrictFIFO: no workload overtakes {first}, which waits itself"
        )
        place, _, name = first.partition("/")
        ways = (
            *((f"what helps that one: gpuaas why {name} -n {place}",) if place != HIDDEN_NAMESPACE else ()),
            f"BestEffortFIFO as spec.queueingStrategy of ClusterQueue {queue}",
        )
    if outgrown(found):
        reason = Token.EXCEEDS_MAX_QUOTA.value
    if mismatched(found):
        reason = Token.NO_MATCHING_FLAVOR.value
    return Answer(subject, "Pending", reason, words, tuple(dict.fromkeys(evidence)), ways, queue, found.position)


def _ways(picture: Picture, workload: View, found: Explanation) -> tuple[str, ...]:
    if flavors := mismatched(found):
        return tuple(agreeing(picture, flavors, {each.flavor: each.reason for each in found.numbers}))
    if uncovered(found):
        groups = ((picture.cluster_queue(found.cluster_queue or "") or {}).get("spec") or {}).get(
            "resourceGroups"
        ) or ()
        covered = [each for group in groups for each in group.get("coveredResources") or ()]
        return (f"ask only for what the queue has: {', '.join(covered)}",) if covered else ()
    looser = less_close(workload) if found.token is Token.TOPOLOGY else ()
    prioritized, along = partial(higher_priority, picture, workload), partial(minimum_along, workload)
    ways = (*ways_out(found, prioritized, along), *looser)
    unmatched = [f"ResourceFlavor {name}" for name in flavors_without_nodes(picture, workload)]
    if not ways and unmatched:
        return (f"give {', '.join(unmatched)} labels that nodes have, or add nodes with its labels",)
    return ways


def _is_strict(picture: Picture, queue: str) -> bool:
    return ((picture.cluster_queue(queue) or {}).get("spec") or {}).get("queueingStrategy") == "StrictFIFO"


def _before(picture: Picture, conditions: Mapping[str, Any]) -> Iterator[str]:
    """It ran once, and had to leave."""
    evicted = conditions.get("Evicted")
    if evicted is not None and is_true(evicted):
        words = _named(picture, _told(evicted["message"]))
        yield f"evicted at {evicted['lastTransitionTime']} ({evicted['reason']}): {words}"


def _named(picture: Picture, message: str) -> str:
    """With the name of who came instead of its ids, where it is still there to be seen."""
    ids = message.partition(" a workload (UID: ")[2].partition(")")[0]
    uid = ids.partition(",")[0]
    came = next((each["metadata"] for each in picture.workloads if uid and each["metadata"].get("uid") == uid), None)
    return message.replace(f"a workload (UID: {ids})", f"{came['namespace']}/{came['name']}") if came else message


def _tried(workload: View) -> Iterator[str]:
    count = ((workload.get("status") or {}).get("requeueState") or {}).get("count", 0)
    if count:
        yield f"put back into its queue {count} time(s) so far"


def _told(message: str) -> str:
    """Upstream's sentence without the internal ids it ends with."""
    return message.partition("; preemptor path:")[0]
