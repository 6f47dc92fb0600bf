"""Jobs and cron jobs."""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import UID, complaints, job, made, refused


def _cron(schedule: str, **spec: Any) -> dict[str, Any]:
    full = {"schedule": schedule, "jobTemplate": {"spec": job()["spec"]}, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "spec": full}


def test_a_job_finds_its_pods_by_its_uid() -> None:
    obj = made(job())
    labels = {
        "batch.kubernetes.io/controller-uid": UID,
        "batch.kubernetes.io/job-name": "x",
        "controller-uid": UID,
        "job-name": "x",
    }
    assert obj["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}}
    assert obj["spec"]["template"]["metadata"]["labels"] == labels
    assert obj["metadata"]["labels"] == labels
    assert obj["metadata"]["labels"] is not obj["spec"]["template"]["metadata"]["labels"]
    assert refused(job()) == []


def test_labels_of_the_user_stay_the_users() -> None:
    obj = made({**job(), "metadata": {"labels": {"mine": "yes"}}})
    assert obj["metadata"]["labels"] == {"mine": "yes"}


@pytest.mark.parametrize(
    ("spec", "defaults"),
    [
        ({}, {"completions": 1, "parallelism": 1, "backoffLimit": 6, "suspend": False, "completionMode": "NonIndexed"}),
        ({"parallelism": 3}, {"completions": None, "parallelism": 3}),
        ({"completions": 3}, {"completions": 3, "parallelism": 1}),
        ({"backoffLimitPerIndex": 1, "completionMode": "Indexed", "completions": 2}, {"backoffLimit": 2147483647}),
        ({"podFailurePolicy": {"rules": []}}, {"podReplacementPolicy": "Failed"}),
        ({}, {"podReplacementPolicy": "TerminatingOrFailed", "manualSelector": False}),
    ],
)
def test_defaults_of_a_job(spec: dict[str, Any], defaults: dict[str, Any]) -> None:
    kept = made(job(**spec))["spec"]
    assert {field: kept.get(field) for field in defaults} == defaults


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"parallelism": -1}, "spec.parallelism: Invalid value: -1: must be greater than or equal to 0"),
        ({"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}, 'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'),
        ({"completionMode": "Odd"}, 'spec.completionMode: Unsupported value: "Odd": supported values: "NonIndexed", "Indexed"'),
        ({"completionMode": "Indexed", "parallelism": 2}, "spec.completions: Required value: when completion mode is Indexed"),
        ({"backoffLimitPerIndex": 1}, "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"),
        ({"managedBy": "me"}, 'spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")'),
        ({"podFailurePolicy": {"rules": [{"action": "Ignore"}]}}, "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"),
        ({"podFailurePolicy": {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [2, 1]}}]}}, "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,1]: must be ordered"),
        ({"completionMode": "Indexed", "completions": 3, "successPolicy": {"rules": [{"succeededIndexes": "0-5"}]}}, 'spec.successPolicy.rules[0].succeededIndexes: Invalid value: "0-5": error parsing succeededIndexes: too large index: "5"'),
        ({"manualSelector": True}, "spec.selector: Required value"),
        ({"manualSelector": True}, "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`"),
        ({"selector": {"matchLabels": {"a": "b"}}}, f'spec.selector: Invalid value: {{"matchLabels":{{"a":"b","batch.kubernetes.io/controller-uid":"{UID}"}}}}: `selector` not auto-generated'),
    ],
)  # fmt: skip
def test_what_is_refused_in_a_job(spec: dict[str, Any], error: str) -> None:
    assert error in refused(job(**spec))


@pytest.mark.parametrize(
    ("spec", "patch", "error"),
    [
        ({}, {"spec": {"parallelism": 5}}, None),
        ({}, {"spec": {"suspend": True}}, None),
        ({}, {"spec": {"backoffLimit": 1}}, None),
        ({}, {"spec": {"completions": 5}}, "spec.completions: Invalid value: 5: field is immutable"),
        ({}, {"spec": {"completionMode": "Indexed"}}, 'spec.completionMode: Invalid value: "Indexed": field is immutable'),
        ({"completionMode": "Indexed", "completions": 2}, {"spec": {"completions": 3}}, "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"),
        ({"completionMode": "Indexed", "completions": 2}, {"spec": {"completions": 3, "parallelism": 3}}, None),
        ({"suspend": True}, {"spec": {"template": {"spec": {"nodeSelector": {"gpu": "h200"}, "tolerations": [{"operator": "Exists"}]}}}}, None),
        ({"suspend": True}, {"spec": {"suspend": False}}, None),
        ({}, {"status": {"active": 1, "ready": 2}}, "status.ready: Invalid value: 2: cannot set more ready pods than active"),
        ({}, {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}, "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition"),
        ({}, {"status": {"active": 1, "startTime": "2026-01-01T00:00:00Z"}}, None),
    ],
)  # fmt: skip
def test_what_of_a_job_may_change(spec: dict[str, Any], patch: dict[str, Any], error: str | None) -> None:
    errors = complaints(job(**spec), patch)
    assert (error in errors) if error else errors == []


def test_a_running_jobs_pods_stay_what_they_are() -> None:
    (error,) = complaints(job(), {"spec": {"template": {"spec": {"nodeSelector": {"gpu": "h200"}}}}})
    assert error.startswith("spec.template: Invalid value: {")
    assert error.endswith(": field is immutable")


def test_a_suspended_jobs_image_does_not_change() -> None:
    container = {"name": "main", "image": "other"}
    (error,) = complaints(job(suspend=True), {"spec": {"template": {"spec": {"containers": [container]}}}})
    assert error.startswith("spec.template.spec: Invalid value")


@pytest.mark.parametrize(
    ("schedule", "error"),
    [
        ("*/5 * * * *", None),
        ("0 9-17 * jan-mar mon", None),
        ("? * * * ?", None),
        ("@daily", None),
        ("@every 5m30s", None),
        ("", "spec.schedule: Required value"),
        ("* * *", 'spec.schedule: Invalid value: "* * *": expected exactly 5 fields, found 3: [* * *]'),
        ("60 * * * *", 'spec.schedule: Invalid value: "60 * * * *": end of range (60) above maximum (59): 60'),
        ("* * 0 * *", 'spec.schedule: Invalid value: "* * 0 * *": beginning of range (0) below minimum (1): 0'),
        ("5-1 * * * *", 'spec.schedule: Invalid value: "5-1 * * * *": beginning of range (5) beyond end of range (1): 5-1'),
        ("*/0 * * * *", 'spec.schedule: Invalid value: "*/0 * * * *": step of range should be a positive number: */0'),
        ("x * * * *", 'spec.schedule: Invalid value: "x * * * *": failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("1-2-3 * * * *", 'spec.schedule: Invalid value: "1-2-3 * * * *": too many hyphens: 1-2-3'),
        ("@sometimes", 'spec.schedule: Invalid value: "@sometimes": unrecognized descriptor: @sometimes'),
        ("@every x", 'spec.schedule: Invalid value: "@every x": failed to parse duration @every x: time: invalid duration "x"'),
        ("TZ=UTC * * * * *", 'spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead'),
    ],
)  # fmt: skip
def test_schedules(schedule: str, error: str | None) -> None:
    assert refused(_cron(schedule)) == ([error] if error else [])


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"timeZone": "Europe/Berlin"}, None),
        ({"timeZone": "Nowhere/Land"}, 'spec.timeZone: Invalid value: "Nowhere/Land": unknown time zone Nowhere/Land'),
        ({"timeZone": ""}, 'spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string'),
        ({"timeZone": "../etc"}, 'spec.timeZone: Invalid value: "../etc": unknown time zone ../etc'),
        ({"concurrencyPolicy": "Maybe"}, 'spec.concurrencyPolicy: Unsupported value: "Maybe": supported values: "Allow", "Forbid", "Replace"'),
        ({"failedJobsHistoryLimit": -1}, "spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0"),
    ],
)  # fmt: skip
def test_cron_jobs(spec: dict[str, Any], error: str | None) -> None:
    assert refused(_cron("* * * * *", **spec)) == ([error] if error else [])
