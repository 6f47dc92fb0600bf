"""Approved requests for client certificates are signed, or marked as failed where their usages are not a client's;
all requests go after a while, answered ones after an hour.

`Deps.sign_request` signs. Only the signer of the API server's clients is played: the kubelets here need no
certificates, and other signers have controllers of their own.
"""

import base64
import contextlib
import math
from collections.abc import Mapping
from typing import Any, Final

from gpuaas.api.kubernetes.rules.certificates import APPROVED, DENIED, FAILED, has_failed, is_approved, request_pem
from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.base.errors import Conflict, NotFound
from gpuaas.client.protocol import Object
from gpuaas.client.resources import SIGNING_REQUESTS
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, uid_of
from gpuaas.runtime.writes import write_status

SIGNER: Final = "kubernetes.io/kube-apiserver-client"
LONGEST: Final = 365 * 86_400.0
SHORTEST: Final = 600.0
ANSWERED_SECONDS: Final = 3_600.0
UNANSWERED_SECONDS: Final = 86_400.0
_ALLOWED: Final = ("client auth", "digital signature", "key encipherment")


def wants_signature(request: Mapping[str, Any]) -> bool:
    signed = (request.get("status") or {}).get("certificate")
    return (
        request["spec"].get("signerName") == SIGNER and not signed and is_approved(request) and not has_failed(request)
    )


def usage_fault(usages: list[str]) -> str:
    """What is wrong with the usages of a client's certificate; "" if nothing is."""
    for usage in usages:
        if usage not in _ALLOWED:
            return f"invalid usage for client certificate: {usage}"
    return "" if "client auth" in usages else "missing required usage for client certificate: client auth"


def lifetime(spec: Mapping[str, Any]) -> float:
    """Seconds: as many as were asked for, within reason."""
    return min(LONGEST, max(SHORTEST, float(spec.get("expirationSeconds") or LONGEST)))


def kept_until(request: Mapping[str, Any]) -> float:
    """When a request has been there for long enough."""
    status = request.get("status") or {}
    conditions = status.get("conditions") or ()
    if not conditions:
        return parse_rfc3339(request["metadata"]["creationTimestamp"]) + UNANSWERED_SECONDS
    ends = [math.inf]
    for one in conditions:
        waits = one.get("type") == APPROVED and not status.get("certificate")
        if one.get("type") in (APPROVED, DENIED, FAILED) and one.get("lastUpdateTime"):
            ends.append(parse_rfc3339(one["lastUpdateTime"]) + (UNANSWERED_SECONDS if waits else ANSWERED_SECONDS))
    return min(ends)


class CertificateCleaner(Controller):
    name = "certificatesigningrequest-cleaner-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._requests = self.follow(deps.informers.of(SIGNING_REQUESTS))

    async def reconcile(self, key: Key) -> Requeue | None:
        request = self._requests.get(*key)
        if request is None:
            return None
        left = kept_until(request) - self.clock.now()
        if left > 0:
            return Requeue(left) if left < math.inf else None
        with contextlib.suppress(NotFound, Conflict):
            await self.client.delete(SIGNING_REQUESTS, key.name, uid=uid_of(request))
        return None


class CertificateSigningController(Controller):
    name = "certificatesigningrequest-signing-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._sign = deps.sign_request
        self._requests = self.follow(deps.informers.of(SIGNING_REQUESTS))

    async def reconcile(self, key: Key) -> Requeue | None:
        request = self._requests.get(*key)
        pem = request_pem(request["spec"]) if request is not None else None
        if request is None or pem is None or self._sign is None or not wants_signature(request):
            return None
        status: Object = dict(request.get("status") or {})
        usages = list(request["spec"].get("usages") or ())
        fault = usage_fault(usages)
        if fault:
            status["conditions"] = [*(status.get("conditions") or ()), self._failure(fault)]
        else:
            status["certificate"] = base64.b64encode(self._sign(pem, usages, lifetime(request["spec"]))).decode()
        with contextlib.suppress(NotFound, Conflict):  # another version of it is on its way here
            await write_status(self.client, SIGNING_REQUESTS, request, status)
        return None

    def _failure(self, fault: str) -> Object:
        now = rfc3339(self.clock.now())
        times = {"lastUpdateTime": now, "lastTransitionTime": now}
        return {"type": FAILED, "status": "True", "reason": "SignerValidationFailure", "message": fault, **times}
