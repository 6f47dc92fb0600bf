"""Our own certificate authority: the serving certificate and client certificates.

Everything lies in one folder: `ca.crt`, `ca.key`, `serving.crt`, `serving.key`; keys are mode 0600. The serving
certificate is renewed when its names change, its end comes near, or it is not valid yet (the clock was wrong when it
was made); so is the CA's own, for the same key, so that what it signed and copies of the old one stay good. `cryptography` takes 0.1 s to import, so it is
imported only where a key or certificate has to be made or read; a start with good certificates does neither, because
`serving.json` says what the certificate says.
"""

import hashlib
import ipaddress
import json
import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuaas.apiserver.security.files import write_private
from gpuaas.apiserver.security.keys import key_pem, load_key, make_key
from gpuaas.base.names import is_dns1123_subdomain

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

_log = logging.getLogger("gpuaas")
_DAY = 86_400.0
_AUTHORITY_DAYS = 3650
_SERVING_DAYS = 365
_RENEW_BEFORE = 30 * _DAY
_RENEW_AUTHORITY_BEFORE = (_SERVING_DAYS + 30) * _DAY  # nothing it signs for us outlives it
_CLUSTER = "2.25.1184270367"  # our own mark: which cluster signed it. Go reads no numbers of more than 31 bits there
_BACKDATED = timedelta(minutes=5)  # clocks of clients are not exactly ours

SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")


class Credentials(NamedTuple):
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """The CA in a folder; made there if there is none."""

    def __init__(self, folder: Path, now: float) -> None:
        self.folder = folder
        self.certificate_file = folder / "ca.crt"
        self._now = now
        self._wanted: list[str] = []
        if not (self.certificate_file.exists() and self._key_file.exists()):
            self._make()

    @property
    def certificate(self) -> bytes:
        return self.certificate_file.read_bytes()

    @property
    def _key_file(self) -> Path:
        return self.folder / "ca.key"

    @property
    def serving_files(self) -> tuple[Path, Path]:
        return self.folder / "serving.crt", self.folder / "serving.key"

    def serving(self, names: Iterable[str]) -> tuple[Path, Path]:
        """Certificate and key files for a server reachable under these names and addresses."""
        self._wanted = sorted({check_name(name) for name in names})
        if not self.is_current(self._now):
            self.renew(self._now)
        return self.serving_files

    def renew(self, now: float) -> None:
        """Makes the serving certificate again, for the names that were asked for."""
        self._now = now
        certificate, key = self.serving_files
        starts, ends = self._renewed_authority()
        made = self._issue("gpuaas", (), self._wanted, _SERVING_DAYS, server=True)
        write_private(key, made.key)
        write_private(certificate, made.certificate, mode=0o644)
        note = {
            "names": self._wanted,
            "starts": now - _BACKDATED.total_seconds(),
            "expires": now + _SERVING_DAYS * _DAY,
            "authority": {"starts": starts, "expires": ends},
            "files": self._digest(certificate, key),
        }
        write_private(self.folder / "serving.json", json.dumps(note, indent=1).encode(), mode=0o644)

    def client(self, name: str, groups: Sequence[str] = (), days: float = 365) -> Credentials:
        """A client certificate: the server takes its common name as the user and its organizations as groups."""
        return self._issue(name, groups, (), days, server=False)

    def sign(self, request: bytes, usages: Sequence[str], seconds: float, cluster: str, now: float) -> bytes:
        """The certificate (PEM) for a signing request; good in one cluster."""
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID

        asked = _request(request)
        authority = x509.load_pem_x509_certificate(self.certificate)
        authority_key = load_key(self._key_file.read_bytes())
        builder = _builder(asked.subject, authority.subject, asked.public_key(), now, seconds / _DAY)
        kinds = {name.replace(" ", "_"): True for name in usages if name in ("digital signature", "key encipherment")}
        if kinds:
            builder = builder.add_extension(_key_usage(**kinds), critical=True)
        if "client auth" in usages:
            extended = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
            builder = builder.add_extension(extended, critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        marked = x509.UnrecognizedExtension(x509.ObjectIdentifier(_CLUSTER), _text(cluster))
        return _sign(builder.add_extension(marked, critical=False), authority_key)

    def is_current(self, now: float) -> bool:
        """Whether the serving certificate is for these names, valid, not near its end, and untouched since it was
        made; and the CA's with it."""
        try:
            note = json.loads((self.folder / "serving.json").read_bytes())
            above = note["authority"]
            valid = note["starts"] <= now < note["expires"] - _RENEW_BEFORE
            trusted = above["starts"] <= now < above["expires"] - _RENEW_AUTHORITY_BEFORE
            current = valid and trusted and note["names"] == self._wanted
            return bool(current and note["files"] == self._digest(*self.serving_files))
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def _digest(self, *files: Path) -> str:
        digest = hashlib.sha256(self.certificate)
        for file in files:
            digest.update(file.read_bytes())
        return digest.hexdigest()

    def _renewed_authority(self) -> tuple[float, float]:
        """From when until when the CA's certificate is valid; made again if it is not valid yet, or not for long."""
        from cryptography import x509

        current = x509.load_pem_x509_certificate(self.certificate)
        starts, ends = current.not_valid_before_utc.timestamp(), current.not_valid_after_utc.timestamp()
        if starts <= self._now < ends - _RENEW_AUTHORITY_BEFORE:
            return starts, ends
        state = "is not valid yet" if self._now < starts else f"ends on {current.not_valid_after_utc:%Y-%m-%d}"
        self._sign_authority(load_key(self._key_file.read_bytes()))
        _log.warning(
            "the certificate of the CA %s and was made again, for the same key: kubeconfigs that hold the old one"
            " need the new one from %s",
            state,
            self.certificate_file,
        )
        return self._now - _BACKDATED.total_seconds(), self._now + _AUTHORITY_DAYS * _DAY

    def _make(self) -> None:
        key = make_key()
        write_private(self._key_file, key_pem(key))
        self._sign_authority(key)

    def _sign_authority(self, key: "EllipticCurvePrivateKey") -> None:
        from cryptography import x509

        name = x509.Name([_attribute("COMMON_NAME", "gpuaas-ca")])
        builder = _builder(name, name, key.public_key(), self._now, _AUTHORITY_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(key_cert_sign=True, crl_sign=True), critical=True)
        write_private(self.certificate_file, _sign(builder, key), mode=0o644)

    def _issue(
        self, common_name: str, organizations: Sequence[str], names: Sequence[str], days: float, *, server: bool
    ) -> Credentials:
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID

        authority = x509.load_pem_x509_certificate(self.certificate)
        authority_key = load_key(self._key_file.read_bytes())
        key = make_key()
        subject = x509.Name(
            [_attribute("ORGANIZATION_NAME", one) for one in organizations] + [_attribute("COMMON_NAME", common_name)]
        )
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = _builder(subject, authority.subject, key.public_key(), self._now, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(digital_signature=True), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(_alternatives(names)), critical=False)
        return Credentials(_sign(builder, authority_key), key_pem(key))


def check_name(name: str) -> str:
    """A name or address a certificate can be for, in its usual spelling; ValueError says what is wrong with it."""
    try:
        return str(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        pass
    lower = name.lower().rstrip(".")
    if is_dns1123_subdomain(lower.removeprefix("*.")):
        raise ValueError(f"{name!r} is neither an IP address nor a DNS name such as gpu.example.com or *.example.com")
    return lower


def serving_names(hostname: str, extra: Iterable[str] = ()) -> list[str]:
    """Everything this machine's server may be called; a host name no certificate can carry is left out."""
    try:
        own = [check_name(hostname)]
    except ValueError:
        own = []
    return ["127.0.0.1", "::1", "localhost", *own, *SERVICE_NAMES, *extra]


def requested_groups(request: bytes) -> list[str]:
    """The organizations a certificate request (PEM) names; ValueError for what is none, or is not its key's."""
    from cryptography.x509.oid import NameOID

    subject = _request(request).subject
    return [str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


def _request(pem: bytes) -> "x509.CertificateSigningRequest":
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        request = x509.load_pem_x509_csr(pem)
        sound = request.is_signature_valid
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from error
    if not sound:
        raise ValueError("the request is not signed with the key it is for")
    return request


@lru_cache(maxsize=256)
def cluster_of(certificate: bytes) -> str:
    """The cluster that signed a client certificate (DER); "" where it was given for all of them."""
    from cryptography import x509

    for extension in x509.load_der_x509_certificate(certificate).extensions:
        if extension.oid.dotted_string == _CLUSTER and isinstance(extension.value, x509.UnrecognizedExtension):
            return extension.value.value[2:].decode()
    return ""


@lru_cache(maxsize=256)
def subject_of(certificate: bytes) -> tuple[str, tuple[str, ...]]:
    """Common name and organizations of a client certificate (DER) that TLS has verified."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    subject = x509.load_der_x509_certificate(certificate).subject
    names = [str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    return names[0] if names else "", tuple(groups)


def _builder(
    subject: "x509.Name", issuer: "x509.Name", key: "CertificatePublicKeyTypes", now: float, days: float
) -> "x509.CertificateBuilder":
    from cryptography import x509

    start = datetime.fromtimestamp(int(now), UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - _BACKDATED)
        .not_valid_after(start + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _sign(builder: "x509.CertificateBuilder", key: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding

    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def _text(short: str) -> bytes:
    """A UTF8String of ASN.1, of fewer than 128 bytes."""
    return bytes((12, len(short.encode()))) + short.encode()


def _key_usage(**used: bool) -> "x509.KeyUsage":
    from cryptography import x509

    every = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: used.get(name, False) for name in every})


def _attribute(oid: str, value: str) -> "x509.NameAttribute[Any]":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.NameAttribute(getattr(NameOID, oid), value)


def _alternatives(names: Iterable[str]) -> "list[x509.GeneralName]":
    from cryptography import x509

    found: list[x509.GeneralName] = []
    for name in names:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found
