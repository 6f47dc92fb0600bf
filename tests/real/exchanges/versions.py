"""Horizontal autoscalers in their two versions: what the older one cannot say, it carries in annotations."""

from __future__ import annotations

import json
from typing import Any

from tests.real.wire import MERGE, Wire, case

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def crd(plural: str, kind: str, group: str, **more: Any) -> dict[str, Any]:
    names = {"plural": plural, "kind": kind, "listKind": f"{plural}List", **more}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": names,
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": spec,
    }


def _told(w: Wire, name: str, kind: str, status: str) -> bool:
    found = w.prepare("GET", f"{CRDS}/{name}").json()
    conditions = (found.get("status") or {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == status for each in conditions)


@case
def kinds_of_one_name(w: Wire) -> None:
    """Who has a name keeps it; who wants it waits. Statuses are looked at when the controllers have written them."""
    group = "names.example.org"
    w.prepare("POST", CRDS, crd("mugs", "Mug", group, shortNames=["mg", "m"]))
    w.until(lambda: _told(w, f"mugs.{group}", "Established", "True"))
    for plural, kind, more in (
        ("jugs", "Mug", {"shortNames": ["mg", "j", "m"], "categories": ["all"]}),
        ("cups", "Cup", {"shortNames": ["m"]}),
        ("cans", "mugsList", {"singular": "mug"}),
    ):
        w.prepare("POST", CRDS, crd(plural, kind, group, **more))
        w.until(lambda plural=plural: _told(w, f"{plural}.{group}", "NamesAccepted", "False"))  # type: ignore[misc]
        w.get(f"{CRDS}/{plural}.{group}")
        w.get(f"/apis/{group}/v1/{plural}")
    w.prepare("PATCH", f"{CRDS}/mugs.{group}", {"spec": {"names": {"shortNames": ["mg"]}}}, MERGE)
    w.until(lambda: _told(w, f"cups.{group}", "Established", "True"))
    w.get(f"{CRDS}/cups.{group}")
    w.prepare("PATCH", f"{CRDS}/cups.{group}", {"spec": {"names": {"shortNames": ["mg", "c"]}}}, MERGE)
    w.until(lambda: _told(w, f"cups.{group}", "NamesAccepted", "False"))
    w.get(f"{CRDS}/cups.{group}")
    resources = w.prepare("GET", f"/apis/{group}/v1").json()["resources"]
    w.note("what cups are called", body=json.dumps(next(each for each in resources if each["name"] == "cups")))
    w.prepare("DELETE", f"{CRDS}/cans.{group}")
    w.until(lambda: w.prepare("GET", f"{CRDS}/cans.{group}").status == 404)
    w.prepare("DELETE", f"{CRDS}/mugs.{group}")
    w.until(lambda: _told(w, f"jugs.{group}", "Established", "True"))
    w.get(f"{CRDS}/jugs.{group}")
    for plural in ("jugs", "cups"):
        w.prepare("DELETE", f"{CRDS}/{plural}.{group}")


@case
def kinds_that_somebody_approved(w: Wire) -> None:
    group, kind = "approval.example.k8s.io", "KubernetesAPIApprovalPolicyConformant"
    w.post(CRDS, crd("mugs", "Mug", group))
    for plural, said in (
        ("a", "https://example.org/x"),
        ("b", "unapproved"),
        ("c", 'unapproved, \t"so"'),
        ("d", "http://h?q"),
        ("e", "nobody"),
        ("f", "http:///x"),
        ("g", "//h/x"),
        ("h", "x:y"),
        ("i", ""),
        ("j", "http://a b"),
        ("k", "1x://h"),
    ):
        made = crd(plural, plural.upper(), group)
        made["metadata"]["annotations"] = {"api-approved.kubernetes.io": said}
        w.post(CRDS, made, dryRun="All")
        if w.prepare("POST", CRDS, made).status == 201:
            w.until(lambda plural=plural: any(_told(w, f"{plural}.{group}", kind, each) for each in ("True", "False")))  # type: ignore[misc]
            w.until(lambda plural=plural: _told(w, f"{plural}.{group}", "Established", "True"))  # type: ignore[misc]
            found = w.prepare("GET", f"{CRDS}/{plural}.{group}").json()["status"]["conditions"]
            said = next(
                f"{each['status']} {each['reason']} {each['message']}" for each in found if each["type"] == kind
            )
            w.note(plural, body=said)
            w.prepare("DELETE", f"{CRDS}/{plural}.{group}")
