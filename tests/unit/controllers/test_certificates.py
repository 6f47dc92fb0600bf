"""Approved requests for client certificates are signed once; others wait, and what no client needs fails."""

import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gpuaas.client.resources import SIGNING_REQUESTS
from gpuaas.controllers.certificates import (
    SIGNER,
    CertificateCleaner,
    CertificateSigningController,
    lifetime,
    usage_fault,
)
from gpuaas.runtime.controller import Deps
from gpuaas.testing.time import scenario, stage

PEM = b"-----BEGIN CERTIFICATE REQUEST-----\nbm9uZQ==\n-----END CERTIFICATE REQUEST-----"
APPROVED = {"type": "Approved", "status": "True"}


class Signing(CertificateSigningController):
    def __init__(self, deps: Deps) -> None:
        super().__init__(replace(deps, sign_request=sign))


def sign(request: bytes, usages: Sequence[str], seconds: float) -> bytes:
    assert request == PEM
    return f"{'+'.join(usages)} for {seconds:.0f}".encode()


def asked(name: str, *conditions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    usual = {"request": base64.b64encode(PEM).decode(), "signerName": SIGNER, "usages": ["client auth"]}
    return {"metadata": {"name": name}, "spec": usual | spec, "status": {"conditions": list(conditions)}}


@scenario
async def test_only_what_is_approved_and_for_our_signer_is_signed() -> None:
    async with stage(Signing) as on:
        on.cluster.put(SIGNING_REQUESTS, asked("good", APPROVED, expirationSeconds=3600))
        on.cluster.put(SIGNING_REQUESTS, asked("waiting"))
        on.cluster.put(SIGNING_REQUESTS, asked("denied", {"type": "Denied", "status": "True"}))
        on.cluster.put(SIGNING_REQUESTS, asked("foreign", APPROVED, signerName="example.com/own"))
        on.cluster.put(SIGNING_REQUESTS, asked("server", APPROVED, usages=["server auth"]))
        await on.settle()
        found = {one["metadata"]["name"]: one["status"] for one in on.cluster.all(SIGNING_REQUESTS)}
        signed = {name: base64.b64decode(status.get("certificate", "")) for name, status in found.items()}
        assert {name: text for name, text in signed.items() if text} == {"good": b"client auth for 3600"}
        failure = found["server"]["conditions"][1]
        assert (failure["type"], failure["reason"]) == ("Failed", "SignerValidationFailure")
        assert failure["message"] == "invalid usage for client certificate: server auth"


@pytest.mark.parametrize(
    ("usages", "fault"),
    [
        (["client auth", "digital signature", "key encipherment"], ""),
        (["digital signature"], "missing required usage for client certificate: client auth"),
        (["client auth", "any"], "invalid usage for client certificate: any"),
    ],
)
def test_the_usages_of_a_client(usages: list[str], fault: str) -> None:
    assert usage_fault(usages) == fault


@pytest.mark.parametrize(("wanted", "given"), [(None, 31_536_000), (3600, 3600), (10, 600), (10**9, 31_536_000)])
def test_a_certificate_is_good_for_a_year_at_most(wanted: int | None, given: int) -> None:
    assert lifetime({"expirationSeconds": wanted}) == given


@scenario
async def test_answered_requests_go_after_an_hour_and_others_after_a_day() -> None:
    async with stage(CertificateCleaner) as on:
        told = {"status": "True", "lastUpdateTime": "2026-01-01T00:30:00Z"}
        signed = asked("signed", {"type": "Approved", **told})
        signed["status"]["certificate"] = "eA=="
        on.cluster.put(SIGNING_REQUESTS, signed)
        on.cluster.put(SIGNING_REQUESTS, asked("denied", {"type": "Denied", **told}))
        on.cluster.put(SIGNING_REQUESTS, asked("unsigned", {"type": "Approved", **told}))
        on.cluster.put(SIGNING_REQUESTS, asked("waiting"))
        on.cluster.put(SIGNING_REQUESTS, asked("odd", {"type": "Considered", **told}))

        def left() -> list[str]:
            return [one["metadata"]["name"] for one in on.cluster.all(SIGNING_REQUESTS)]

        await on.advance(5_390)
        assert len(left()) == 5
        await on.advance(20)
        assert left() == ["odd", "unsigned", "waiting"]
        await on.advance(86_400 - 5_400)
        assert left() == ["odd", "unsigned"]
        await on.advance(1_800)
        assert left() == ["odd"]
