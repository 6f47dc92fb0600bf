"""The submit form: fields and manifest are made from each other, and neither loses what was written in the other."""

from __future__ import annotations

from typing import Any

import pytest

from gpuaas.base.errors import BadRequest
from gpuaas.profiles.webhook import NAME
from gpuaas.web.submission import (
    LONGEST,
    Fields,
    fields_in,
    fields_of,
    manifest_of,
    read_manifest,
    with_defaults,
    written,
)

QUEUE = "kueue.x-k8s.io/queue-name"
JOB = Fields("job", "train", "l4-1gpu", "", "python train.py --note 'a b'")


def made(fields: Fields = JOB, base: Any = None, *, local: bool = False) -> dict[str, Any]:
    return manifest_of(fields, "team", base, local=local)


@pytest.mark.parametrize(
    "fields",
    [
        JOB,
        Fields("job", "", "", "default", "nvidia-smi", "2"),
        Fields("notebook", "nb", "l4-1gpu", "", ""),
        Fields("notebook", "nb", "", "q", "", "1"),
    ],
)
def test_a_manifest_shows_the_fields_it_was_made_of(fields: Fields) -> None:
    assert fields_in(read_manifest(written(made(fields)))) == fields


def test_a_profile_is_an_annotation_and_gpus_are_then_its_own() -> None:
    job = made(Fields("job", "t", "l4", "", "x", "4"))
    assert job["metadata"]["annotations"] == {NAME: "l4"}
    assert "resources" not in job["spec"]["template"]["spec"]["containers"][0]


def test_what_the_fields_do_not_own_stays() -> None:
    base = made()
    base["spec"]["backoffLimit"] = 3
    base["metadata"]["labels"] = {"mine": "1"}
    container = base["spec"]["template"]["spec"]["containers"][0]
    container |= {"env": [{"name": "A", "value": "1"}], "resources": {"requests": {"cpu": "2"}}}
    base["spec"]["template"]["spec"]["containers"].append({"name": "sidecar", "image": "i"})
    after = made(Fields("job", "other", "", "q", "echo hi", "1"), base)
    pod = after["spec"]["template"]["spec"]
    assert after["metadata"] == {"labels": {"mine": "1", QUEUE: "q"}, "name": "other", "namespace": "team"}
    assert after["spec"]["backoffLimit"] == 3
    assert [each["name"] for each in pod["containers"]] == ["train", "sidecar"]
    assert pod["containers"][0]["env"] == [{"name": "A", "value": "1"}]
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "2", "nvidia.com/gpu": "1"},
        "limits": {"nvidia.com/gpu": "1"},
    }


def test_another_kind_begins_anew() -> None:
    notebook = made(Fields("notebook", "nb", "l4"), made())
    assert notebook["kind"] == "Notebook"
    assert "backoffLimit" not in notebook["spec"]


def test_on_this_machine_it_becomes_processes() -> None:
    pod = made(local=True)["spec"]["template"]["spec"]
    assert (pod["runtimeClassName"], pod["containers"][0]["image"]) == ("gpuaas-process", "local-process")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "manifest:"),
        ("[]", "an object with metadata was expected"),
        ("apiVersion: v1\nkind: Secret\nmetadata: {}", "v1 Secret was found; batch/v1 Job or kubeflow.org/v1 Notebook"),
        ("x: &a [" + "1," * 900 + "]\ny: [" + "*a," * 900 + "]", "manifest:"),
        ("x: " + "y" * LONGEST, "manifest:"),
    ],
)
def test_a_manifest_that_cannot_be_submitted_is_refused_with_words(text: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        read_manifest(text)


@pytest.mark.parametrize(
    ("form", "words"),
    [({"kind": "secret"}, "kind: 'secret'"), ({"gpus": "-1"}, "gpus: '-1'"), ({"gpus": "٣"}, "gpus:")],
)
def test_fields_that_no_form_of_ours_sends(form: dict[str, str], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        fields_of(form)


@pytest.mark.parametrize(("command", "words"), [("", "nothing was found"), ("echo 'a", "No closing quotation")])
def test_a_command_that_no_shell_reads(command: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        made(Fields("job", command=command))


@pytest.mark.parametrize(
    ("fields", "queues", "of_profile", "queue"),
    [
        (Fields(), ["a"], "", "a"),
        (Fields(), ["a", "default"], "", "default"),
        (Fields(), ["a", "b"], "", ""),
        (Fields(queue="b"), ["a", "b"], "", "b"),
        (Fields(queue="b"), ["a", "b"], "a", ""),
    ],
)
def test_which_queue_is_chosen(fields: Fields, queues: list[str], of_profile: str, queue: str) -> None:
    assert with_defaults(fields, queues, of_profile).queue == queue
