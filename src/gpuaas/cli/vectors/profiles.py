"""Profile vectors: what Open Data Hub's webhooks, dashboard and notebook controller answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from gpuaas.cli.vectors.embedded import EmbeddedApi
from gpuaas.cli.vectors.verdicts import Difference, Verdict
from gpuaas.profiles import culling, customise, offered, workbench
from gpuaas.profiles.culling import Kernel, Seen
from gpuaas.profiles.queue_label import review_deprecated, review_queue_label
from gpuaas.profiles.webhook import Answer, review

Object = Mapping[str, Any]
_NOW: Final = 1_000_000.0
_SERVER_OWNED: Final = frozenset(("uid", "creationTimestamp", "resourceVersion", "managedFields"))


def is_profiles(vector: Object) -> bool:
    return vector.get("family") in _RUN and "expect" in vector and "input" in vector


def judge(vector: Object) -> Verdict:
    family = vector["family"]
    found = _RUN[family](vector["input"])
    return Verdict(vector["name"], family, tuple(_compare(vector["expect"], found)), successor="next" in vector)


def _compare(expect: Object, found: Object) -> Iterator[Difference]:
    for key in sorted(set(expect) | set(found)):
        if key == "message" and (expect.get("code") == 500 or expect.get("allowed")):
            continue  # the words of a 500 hold Go type names; those of an allowed answer are advisory
        wanted, got = expect.get(key), found.get(key)
        if key == "warnings" and "allowed" in expect:
            wanted, got = sorted(wanted or ()), sorted(got or ())
        if wanted != got:
            yield Difference(key, wanted, got)
            return


def _shown(answer: Answer) -> Object:
    found: dict[str, Any] = {"allowed": answer.allowed}
    if answer.allowed:
        found |= {"unchanged": True} if answer.object is None else {"object": answer.object}
    else:
        found |= {"code": answer.code, "message": answer.message}
    if answer.reason:
        found["reason"] = answer.reason
    if answer.warnings:
        found["warnings"] = list(answer.warnings)
    if answer.events:
        found["events"] = [
            {"name": e.name, "namespace": e.namespace, "reason": e.reason, "message": e.message, "type": "Warning"}
            for e in answer.events
        ]
    return found


def _hardware_profile(given: Object) -> Object:
    stored = {(p["metadata"]["namespace"], p["metadata"]["name"]): p for p in given.get("profiles") or ()}
    answer = review(
        given["operation"], given["object"], given.get("oldObject"), lambda where, name: stored.get((where, name))
    )
    return _shown(answer)


def _kueue_label(given: Object) -> Object:
    namespaces = {n["metadata"]["name"]: n for n in given["namespaces"]}
    obj = given["object"]
    namespace = namespaces.get(obj["metadata"].get("namespace", ""))
    return _shown(review_queue_label(given["operation"], obj, namespace, given["dataScienceClusters"]))


def _deprecated(given: Object) -> Object:
    obj = given["object"] or given["oldObject"]
    return _shown(review_deprecated(given["operation"], obj["apiVersion"], obj["kind"]))


def _profile_valid(given: Object) -> Object:
    profile = given["profile"]
    return {
        "warnings": offered.warnings(profile),
        "details": offered.details(profile),
        "resources": offered.default_resources(profile),
    }


def _profile_list(given: Object) -> Object:
    queues = given.get("localQueues")
    project = offered.Project(
        given["kueueManaged"], given["kueueEnabled"], None if queues is None else frozenset(queues)
    )
    profiles = given["profiles"]
    return {
        "visible": [offered.name_of(p) for p in offered.visible(profiles, given["visibility"])],
        "shown": [offered.name_of(p) for p in offered.offered(profiles, given["visibility"], project, given["order"])],
        "titles": {offered.name_of(p): offered.title(p) for p in profiles},
        "banner": offered.banner(profiles),
    }


def _customise(given: Object) -> Object:
    errors = customise.check(given["profile"], given["resources"])
    return {"valid": not errors, "errors": [{"path": e.path, "message": e.message} for e in errors]}


def _workbench_status(given: Object) -> Object:
    state = workbench.state_of(given["workload"])
    queue = given.get("queue")
    found: dict[str, Any] = {
        "status": state.status,
        "label": state.label,
        "text": workbench.sentence(state, queue),
        "step": workbench.step(state, queue, given.get("position"), again=bool(given.get("recovery"))),
    }
    found |= {"message": state.message} if state.message is not None else {}
    return found | ({"timestamp": state.timestamp} if state.timestamp is not None else {})


def _culling(given: Object) -> Object:
    def moment(ago: Any) -> float | None:
        return _NOW - ago if isinstance(ago, int | float) else None

    kernels, terminals = given.get("kernels"), given.get("terminals")
    seen = Seen(
        moment(given.get("lastActivity")),
        moment(given.get("lastCheck")),
        None if kernels is None else [Kernel(k["execution_state"], moment(k["ago"])) for k in kernels],
        None if terminals is None else [_NOW - t["ago"] for t in terminals],
        bool(given.get("stopped")),
    )
    verdict = culling.check(
        seen, _NOW, idle_after=given["cullIdleMinutes"] * 60, period=given["checkPeriodMinutes"] * 60
    )
    found: dict[str, Any] = {"due": verdict.due, "idle": verdict.idle}
    return found if verdict.last_activity is None else {**found, "lastActivityAgo": int(_NOW - verdict.last_activity)}


@cache
def _api() -> EmbeddedApi:
    api = EmbeddedApi()
    api.post("/api/v1/namespaces", {"metadata": {"name": "team"}}, {})
    return api


def close() -> None:
    """Ends the API server of the schema vectors, where one was started."""
    if _api.cache_info().currsize:
        _api().close()
        _api.cache_clear()


def _schema(given: Object) -> Object:
    """A request to our own API server, as a dry run."""
    query = {"dryRun": "All"}
    if "fieldValidation" in given:
        query["fieldValidation"] = given["fieldValidation"]
    status, warnings, body = _api().post(given["path"], given["manifest"], query)
    found: dict[str, Any] = {"accepted": status == 201}
    if status == 201:
        metadata = {key: value for key, value in body["metadata"].items() if key not in _SERVER_OWNED}
        found["object"] = {**body, "metadata": metadata}
    else:
        causes = (body.get("details") or {}).get("causes")
        found |= {"code": body["code"], "reason": body["reason"], "message": body["message"]}
        found |= {"causes": causes} if causes else {}
    return {**found, "warnings": warnings} if warnings else found


_RUN: Final[Mapping[str, Callable[[Object], Object]]] = {
    "hardware-profile": _hardware_profile,
    "kueue-label": _kueue_label,
    "deprecated": _deprecated,
    "schema": _schema,
    "profile-valid": _profile_valid,
    "profile-list": _profile_list,
    "customise": _customise,
    "workbench-status": _workbench_status,
    "culling": _culling,
}
