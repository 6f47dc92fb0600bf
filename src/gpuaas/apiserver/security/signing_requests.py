"""Requests for certificates at the server: they say who asks, and only who may approve or sign for a signer does.

What makes a request well-formed beside that is in the api room (`rules.certificates`); certificates are made in module
certs. No request leads into system:masters, with any approver.
"""

from collections.abc import Mapping
from typing import Any, Final

from gpuaas.api.kubernetes.rules.certificates import request_pem
from gpuaas.apiserver.security.certs import requested_groups
from gpuaas.apiserver.security.identity import MASTERS, Asked, User
from gpuaas.apiserver.security.rbac import Rbac
from gpuaas.base.errors import Forbidden, Invalid
from gpuaas.base.fielderrors import invalid

GROUP: Final = "certificates.k8s.io"
PLURAL: Final = "certificatesigningrequests"
CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"
_KIND: Final = "CertificateSigningRequest"
_ASKING: Final = ("username", "uid", "groups", "extra")


def note_user(user: User, obj: dict[str, Any]) -> None:
    """The request is this user's, whatever it says."""
    spec = {key: value for key, value in (obj.get("spec") or {}).items() if key not in _ASKING}
    obj["spec"] = {**spec, **user.info()}


def check_request(obj: Mapping[str, Any]) -> None:
    """Raise Invalid for what is no sound request, Forbidden for one that asks for too much."""
    name, spec = obj["metadata"].get("name", ""), obj["spec"]
    try:
        groups = requested_groups(request_pem(spec) or b"")
    except ValueError as error:
        raise Invalid(GROUP, _KIND, name, [invalid("spec.request", spec.get("request"), str(error))]) from error
    if spec.get("signerName") == CLIENT_SIGNER and MASTERS in groups:
        raise Forbidden(GROUP, PLURAL, name, f"use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed")


def check_approval(rbac: Rbac, user: User, old: Mapping[str, Any]) -> None:
    _require(rbac, user, "approve", old)


def check_signature(rbac: Rbac, user: User, obj: Mapping[str, Any], old: Mapping[str, Any]) -> None:
    if (obj.get("status") or {}) != (old.get("status") or {}):
        _require(rbac, user, "sign", old)


def _require(rbac: Rbac, user: User, verb: str, old: Mapping[str, Any]) -> None:
    signer = old["spec"].get("signerName", "")
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        if rbac.authorize(user, Asked(verb, GROUP, "signers", name=name)).allowed:
            return
    why = f'user not permitted to {verb} requests with signerName "{signer}"'
    raise Forbidden(GROUP, PLURAL, old["metadata"]["name"], why)
