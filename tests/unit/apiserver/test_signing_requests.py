"""Requests for certificates: whose they are, what of them stays, and who may approve and sign them."""

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from tests.unit.apiserver.conftest import JSON_PATCH, MERGE, Api

PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
CLIENTS = "kubernetes.io/kube-apiserver-client"
APPROVED = {"type": "Approved", "status": "True", "reason": "Asked", "message": "well"}


def request_for(name: str, *groups: str) -> str:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(Encoding.PEM)).decode()


def asked(name: str, **spec: Any) -> dict[str, Any]:
    usual = {"request": request_for(name), "signerName": CLIENTS, "usages": ["client auth"]}
    return {"metadata": {"name": name}, "spec": usual | spec}


def as_user(name: str) -> dict[str, str]:
    return {"impersonate-user": name}


@pytest.fixture(scope="module", autouse=True)
def roles(api: Api) -> None:
    """ann may write approvals and statuses, but for no signer; ben may approve, and sign, for all of Kubernetes' own."""
    group = "certificates.k8s.io"
    parts = [f"certificatesigningrequests{part}" for part in ("", "/approval", "/status")]
    writes = {"apiGroups": [group], "resources": parts, "verbs": ["create", "get", "update", "patch"]}
    signs = {
        "apiGroups": [group],
        "resources": ["signers"],
        "resourceNames": ["kubernetes.io/*"],
        "verbs": ["approve", "sign"],
    }
    for name, rules in (("ann", [writes]), ("ben", [writes, signs])):
        assert api.send("POST", ROLES, {"metadata": {"name": name}, "rules": rules}).status == 201
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
        }
        assert api.send("POST", ROLES.replace("roles", "rolebindings"), binding).status == 201


def test_it_says_who_asked_whatever_was_sent(api: Api) -> None:
    body = asked("mine", username="somebody-else", groups=["system:masters"])
    made = api.send("POST", PATH, body, headers=as_user("ann")).body
    assert made["spec"]["username"] == "ann"
    assert made["spec"]["groups"] == ["system:authenticated"]


def test_what_is_asked_for_cannot_change(api: Api) -> None:
    made = api.send("POST", PATH, asked("fixed")).body
    changed = {"metadata": {"labels": {"a": "b"}}, "spec": {"usages": ["any"], "username": "other"}}
    after = api.send("PATCH", f"{PATH}/fixed", changed, MERGE).body
    assert after["metadata"]["labels"] == {"a": "b"}
    assert after["spec"] == made["spec"]


def test_nobody_owns_what_is_asked_for_and_who_approves_owns_that(api: Api) -> None:
    assert "managedFields" not in api.send("POST", PATH, asked("unowned")).body["metadata"]
    body = asked("labelled")
    body["metadata"]["labels"] = {"a": "b"}
    made = api.send("POST", PATH, body).body
    approved = api.send("PUT", f"{PATH}/labelled/approval", {**made, "status": {"conditions": [APPROVED]}}).body
    owned = [(entry.get("subresource"), list(entry["fieldsV1"])) for entry in approved["metadata"]["managedFields"]]
    assert sorted(owned, key=str) == [("approval", ["f:status"]), (None, ["f:metadata"])]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"request": "bm9uZQ=="},
            'spec.request: Invalid value: "bm9uZQ==": PEM block type must be CERTIFICATE REQUEST',
        ),
        ({"usages": []}, "spec.usages: Required value"),
        ({"usages": ["client auth", "client auth"]}, 'spec.usages[1]: Duplicate value: "client auth"'),
        ({"usages": ["everything"]}, 'spec.usages[0]: Unsupported value: "everything": supported values: "any", '),
        ({"signerName": ""}, "spec.signerName: Required value"),
        ({"signerName": "me"}, "must be a fully qualified domain and path of the form 'example.com/signer-name'"),
        (
            {"signerName": "me/x"},
            'Invalid value: "me": should be a domain with at least two segments separated by dots',
        ),
        ({"signerName": "a.b/X"}, 'spec.signerName: Invalid value: "X": validating label "X": a lowercase RFC 1123'),
        ({"expirationSeconds": 599}, "may not specify a duration less than 600 seconds (10 minutes)"),
    ],
)
def test_what_is_wrong_is_told(api: Api, spec: dict[str, Any], message: str) -> None:
    answer = api.send("POST", PATH, asked("wrong", **spec))
    assert answer.status == 422
    assert message in answer.message


def test_what_only_looks_like_a_request_is_none(api: Api) -> None:
    text = "-----BEGIN CERTIFICATE REQUEST-----\nbm9uZQ==\n-----END CERTIFICATE REQUEST-----\n"
    answer = api.send("POST", PATH, asked("empty", request=base64.b64encode(text.encode()).decode()))
    assert (answer.status, "spec.request: Invalid value" in answer.message) == (422, True)


def test_nobody_asks_for_mastery(api: Api) -> None:
    answer = api.send("POST", PATH, asked("root", request=request_for("root", "system:masters")))
    assert answer.status == 403
    assert f"use of {CLIENTS} signer with system:masters group is not allowed" in answer.message


def test_who_approves_needs_the_signers_leave(api: Api) -> None:
    api.send("POST", PATH, asked("wanted"))
    body = {"status": {"conditions": [APPROVED]}}
    refused = api.send("PATCH", f"{PATH}/wanted/approval", body, MERGE, headers=as_user("ann"))
    assert refused.status == 403
    assert f'user not permitted to approve requests with signerName "{CLIENTS}"' in refused.message
    done = api.send("PATCH", f"{PATH}/wanted/approval", body, MERGE, headers=as_user("ben"))
    (condition,) = done.body["status"]["conditions"]
    assert condition == APPROVED | {
        "lastUpdateTime": condition["lastUpdateTime"],
        "lastTransitionTime": condition["lastUpdateTime"],
    }


def test_approval_is_not_taken_back_nor_given_through_the_status(api: Api) -> None:
    api.send("POST", PATH, asked("final"))
    status = {"status": {"conditions": [APPROVED]}}
    refused = api.send("PATCH", f"{PATH}/final/status", status, MERGE)
    assert 'updates may not add a condition of type "Approved"' in refused.message
    assert api.send("PATCH", f"{PATH}/final/approval", status, MERGE).status == 200
    back = api.send("PATCH", f"{PATH}/final/approval", [{"op": "remove", "path": "/status/conditions"}], JSON_PATCH)
    assert 'updates may not remove a condition of type "Approved"' in back.message
    denied = APPROVED | {"type": "Denied"}
    both = api.send("PATCH", f"{PATH}/final/approval", {"status": {"conditions": [APPROVED, denied]}}, MERGE)
    assert "Approved and Denied conditions are mutually exclusive" in both.message
    failed = APPROVED | {"type": "Failed", "status": "False"}
    no_failure = api.send("PATCH", f"{PATH}/final/approval", {"status": {"conditions": [APPROVED, failed]}}, MERGE)
    assert 'status.conditions[1].status: Unsupported value: "False": supported values: "True"' in no_failure.message


def test_who_signs_needs_the_signers_leave_and_signs_once(api: Api) -> None:
    api.send("POST", PATH, asked("signed"))
    certificate = base64.b64encode(api.trust.authority.certificate).decode()
    body = {"status": {"certificate": certificate}}
    refused = api.send("PATCH", f"{PATH}/signed/status", body, MERGE, headers=as_user("ann"))
    assert f'user not permitted to sign requests with signerName "{CLIENTS}"' in refused.message
    assert api.send("PATCH", f"{PATH}/signed/status", body, MERGE, headers=as_user("ben")).status == 200
    again = api.send("PATCH", f"{PATH}/signed/status", {"status": {"certificate": "bmV3"}}, MERGE)
    assert "status.certificate: Forbidden: updates may not modify existing certificate content" in again.message


def test_who_approves_may_note_it_in_the_metadata(api: Api) -> None:
    api.send("POST", PATH, asked("noted"))
    body = {"metadata": {"annotations": {"by": "ben"}}, "status": {"conditions": [APPROVED]}, "spec": {"usages": []}}
    done = api.send("PATCH", f"{PATH}/noted/approval", body, MERGE, headers=as_user("ben")).body
    assert done["metadata"]["annotations"] == {"by": "ben"}
    assert done["spec"]["usages"], "nothing else is changed"
