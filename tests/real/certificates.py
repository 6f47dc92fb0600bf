"""A certificate authority and the few certificates a throwaway control plane needs, made on the spot."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=30)
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True)
class Authority:
    """A CA whose certificates and keys lie in one folder, readable by their owner only."""

    folder: Path
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def make(cls, folder: Path) -> Authority:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "real-ca")])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        certificate = (
            _builder(name, name, key.public_key()).add_extension(constraints, critical=True).sign(key, hashes.SHA256())
        )
        authority = cls(folder, certificate, key)
        authority._write("ca", certificate, key)
        return authority

    @property
    def file(self) -> Path:
        return self.folder / "ca.crt"

    def issue(self, stem: str, common_name: str, organisations: tuple[str, ...] = ()) -> tuple[Path, Path]:
        """A certificate good for serving on 127.0.0.1 and for being a client; returns its file and its key's."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organisations]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        names = [x509.DNSName(name) for name in SERVER_NAMES]
        alternatives = x509.SubjectAlternativeName([*names, x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = (
            _builder(subject, self.certificate.subject, key.public_key())
            .add_extension(alternatives, critical=False)
            .add_extension(usage, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return self._write(stem, certificate, key)

    def service_account_key(self) -> Path:
        """The key that signs service-account tokens; the API server and the controller manager share it."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        return _write_private(self.folder / "service-account.key", _pem(key))

    def _write(self, stem: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> tuple[Path, Path]:
        file = self.folder / f"{stem}.crt"
        file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return file, _write_private(self.folder / f"{stem}.key", _pem(key))


def _builder(subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
    )


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _write_private(file: Path, content: bytes) -> Path:
    file.touch(mode=0o600)
    file.write_bytes(content)
    return file
