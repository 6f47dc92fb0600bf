"""Requests for certificates: what is asked cannot change, and what was said of it is not taken back.

Who asks is the server's to say, and whether the request itself is sound and may be approved or signed by this user is
looked at where certificates are read (`apiserver.security.signing_requests`).
"""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final

from gpuaas.api.kinds import Object
from gpuaas.api.kubernetes.rules.others import Plain
from gpuaas.api.metadata import View
from gpuaas.base.clock import rfc3339
from gpuaas.base.duplicates import duplicates
from gpuaas.base.fielderrors import FieldError, child, duplicate, forbidden, invalid, not_supported, required, too_long
from gpuaas.base.names import is_dns1123_label, is_dns1123_subdomain, is_path_segment

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
_FINAL: Final = (APPROVED, DENIED, FAILED)
_CONDITIONS: Final = "status.conditions"
_SHORTEST_SECONDS: Final = 600
_DOMAIN, _NAME = 253, 253 + 253 + 63 + 2
_USAGES: Final = (
    "signing", "digital signature", "content commitment", "key encipherment", "key agreement", "data encipherment",
    "cert sign", "crl sign", "encipher only", "decipher only", "any", "server auth", "client auth", "code signing",
    "email protection", "s/mime", "ipsec end system", "ipsec tunnel", "ipsec user", "timestamping", "ocsp signing",
    "microsoft sgc", "netscape sgc",
)  # fmt: skip
_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE REQUEST-----\s.*?-----END CERTIFICATE REQUEST-----", re.DOTALL)


class CertificateSigningRequest(Plain):
    name_messages = staticmethod(is_path_segment)
    field_selectors = ("spec.signerName",)

    def fields(self, obj: View) -> Mapping[str, str]:
        return {"spec.signerName": (obj.get("spec") or {}).get("signerName", "")}

    def prepare_update(self, obj: Object, old: View) -> None:
        obj["spec"] = old["spec"]

    def validate(self, obj: View) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = _usage_errors(spec.get("usages") or ()) + signer_errors(
            "spec.signerName", spec.get("signerName") or ""
        )
        if request_pem(spec) is None:
            errors.insert(
                0, invalid("spec.request", spec.get("request") or None, "PEM block type must be CERTIFICATE REQUEST")
            )
        seconds = spec.get("expirationSeconds")
        if seconds is not None and seconds < _SHORTEST_SECONDS:
            why = f"may not specify a duration less than {_SHORTEST_SECONDS} seconds (10 minutes)"
            errors.append(invalid("spec.expirationSeconds", seconds, why))
        return errors + _condition_errors(_conditions(obj))

    def prepare_status_update(self, obj: Object, old: View) -> None:
        """Approval and denial stay as they are; if some were added or removed, that is reported below."""
        status = obj.get("status") or {}
        for kind in (APPROVED, DENIED):
            before, now = _of_type(old, kind), _of_type(obj, kind)
            if len(before) == len(now):
                kept = iter(before)
                status["conditions"] = [next(kept) if one.get("type") == kind else one for one in _conditions(obj)]

    def validate_status_update(self, obj: View, old: View) -> list[FieldError]:
        errors = self.validate(obj) + removal_errors(obj, old)
        errors += [
            forbidden(_CONDITIONS, f'updates may not add a condition of type "{kind}"')
            for kind in (APPROVED, DENIED)
            if len(_of_type(obj, kind)) > len(_of_type(old, kind))
        ]
        known = (old.get("status") or {}).get("certificate")
        if known and (obj.get("status") or {}).get("certificate") != known:
            errors.append(forbidden("status.certificate", "updates may not modify existing certificate content"))
        return errors


def request_pem(spec: View) -> bytes | None:
    """The request itself; None where there is none in it."""
    try:
        found = _PEM.search(base64.b64decode(spec.get("request") or "", validate=True))
    except (binascii.Error, ValueError):
        return None
    return found.group() if found else None


def is_approved(obj: View) -> bool:
    """Approved and not denied."""
    return bool(_of_type(obj, APPROVED)) and not _of_type(obj, DENIED)


def has_failed(obj: View) -> bool:
    return any(one.get("status") == "True" for one in _of_type(obj, FAILED))


def stamped(conditions: list[Any], old: View, now: float) -> list[Object]:
    """The conditions with the times their writer left out."""
    since = {
        (one.get("type"), one.get("status")): one["lastTransitionTime"]
        for one in _conditions(old)
        if one.get("lastTransitionTime")
    }
    return [
        {
            **one,
            "lastUpdateTime": one.get("lastUpdateTime") or rfc3339(now),
            "lastTransitionTime": one.get("lastTransitionTime")
            or since.get((one.get("type"), one.get("status")), rfc3339(now)),
        }
        for one in conditions
    ]


def removal_errors(obj: View, old: View) -> list[FieldError]:
    return [
        forbidden(_CONDITIONS, f'updates may not remove a condition of type "{kind}"')
        for kind in _FINAL
        if len(_of_type(obj, kind)) < len(_of_type(old, kind))
    ]


def signer_errors(path: str, name: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    domain, *rest = name.split("/")
    if len(rest) != 1:
        return [invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")]
    errors = [too_long(path, _DOMAIN)] if len(domain) > _DOMAIN else []
    labels = domain.split(".")
    errors += _label_errors(path, domain, ((label, is_dns1123_label(label)) for label in labels))
    if len(labels) < 2:
        errors.append(invalid(path, domain, "should be a domain with at least two segments separated by dots"))
    errors += _label_errors(path, rest[0], ((label, is_dns1123_subdomain(label)) for label in rest[0].split(".")))
    return [*errors, too_long(path, _NAME)] if len(name) > _NAME else errors


def _label_errors(path: str, part: str, labels: Any) -> list[FieldError]:
    """Of the first label that is wrong; the others would give the same message."""
    for label, complaints in labels:
        if complaints:
            return [invalid(path, part, f'validating label "{label}": {text}') for text in complaints]
    return []


def _usage_errors(usages: Any) -> list[FieldError]:
    path = "spec.usages"
    if not usages:
        return [required(path)]
    unknown = [
        not_supported(child(path, index), usage, _USAGES) for index, usage in enumerate(usages) if usage not in _USAGES
    ]
    again = [duplicate(child(path, index), usage) for index, usage in duplicates(usages)]
    return unknown + again


def _condition_errors(conditions: list[Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: list[str] = []
    for index, one in enumerate(conditions):
        kind, status = one.get("type") or "", one.get("status") or ""
        allowed = ("True",) if kind in _FINAL else ("False", "True", "Unknown")
        if not kind:
            errors.append(required(child(_CONDITIONS, index, "type")))
        if not status:
            errors.append(required(child(_CONDITIONS, index, "status")))
        elif status not in allowed:
            errors.append(not_supported(child(_CONDITIONS, index, "status"), status, allowed))
        if (kind == APPROVED and DENIED in seen) or (kind == DENIED and APPROVED in seen):
            errors.append(invalid(_CONDITIONS, kind, "Approved and Denied conditions are mutually exclusive"))
        if kind in seen:
            errors.append(duplicate(child(_CONDITIONS, index, "type"), kind))
        seen.append(kind)
    return errors


def _conditions(obj: View) -> list[Any]:
    return list((obj.get("status") or {}).get("conditions") or ())


def _of_type(obj: View, kind: str) -> list[Any]:
    return [one for one in _conditions(obj) if one.get("type") == kind]
