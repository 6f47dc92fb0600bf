"""Private keys: made, kept in PEM, and used to sign tokens. All are EC P-256.

`cryptography` is imported where it is used: it takes 0.1 s, which a start that signs nothing should not pay.
"""

import hashlib
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import TYPE_CHECKING

from gpuaas.apiserver.security.files import write_private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey


class SigningKey:
    """An EC P-256 key that signs and verifies as ES256 does (JWS: the two numbers side by side)."""

    def __init__(self, pem: bytes) -> None:
        self._key = load_key(pem)

    @classmethod
    def at(cls, path: Path) -> "SigningKey":
        """The key in a file, made there if there is none."""
        if not path.exists():
            write_private(path, key_pem(make_key()))
        return cls(path.read_bytes())

    @property
    def key_id(self) -> str:
        """As Kubernetes derives it: the hash of the public key."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        der = self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return base64url(hashlib.sha256(der).digest())

    def sign(self, message: bytes) -> bytes:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        r, s = utils.decode_dss_signature(self._key.sign(message, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def verifies(self, signature: bytes, message: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        if len(signature) != 64:
            return False
        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        try:
            der = utils.encode_dss_signature(r, s)
            self._key.public_key().verify(der, message, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True

    def jwk(self) -> dict[str, str]:
        """The public key as /openid/v1/jwks publishes it."""
        numbers = self._key.public_key().public_numbers()
        x, y = (base64url(number.to_bytes(32, "big")) for number in (numbers.x, numbers.y))
        return {"use": "sig", "kty": "EC", "kid": self.key_id, "crv": "P-256", "alg": "ES256", "x": x, "y": y}


def make_key() -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def load_key(pem: bytes) -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(pem, password=None)
    if not isinstance(key, EllipticCurvePrivateKey):
        raise TypeError(f"an elliptic curve key is expected, found {type(key).__name__}")
    return key


def key_pem(key: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def base64url(raw: bytes) -> str:
    """Without padding, as tokens and key sets write it."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode()
