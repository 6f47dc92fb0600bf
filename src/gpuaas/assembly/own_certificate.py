"""A serving certificate of one's own beside that of our CA: each is shown to who asks for its names.

A client says in the handshake which name it wants (SNI). For the names of the administrator's certificate it gets that
one; for all others, and for addresses, which no client names there, the one of our CA, which the kubeconfigs in the home
trust. The files are looked at again when they change, so that a renewal needs no restart; a file that cannot be used
leaves the last good certificate in place and is reported once.
"""

import logging
import ssl
from pathlib import Path
from typing import Final

from gpuaas.base.clock import Clock

_LOOK_EVERY: Final = 1.0
_log = logging.getLogger("gpuaas")
_Stamp = tuple[tuple[int, int, int], ...]


class OwnCertificate:
    def __init__(self, certificate: Path, key: Path, clock: Clock) -> None:
        """Raises ValueError where the files are no certificate and its key."""
        self._files = certificate, key
        self._clock = clock
        self._look_at = clock.monotonic() + _LOOK_EVERY
        self._stamp = self._stamped()
        self._context, self.names = _loaded(certificate, key)

    def serve(self, context: ssl.SSLContext) -> None:
        """From now on connections to `context` get this certificate where they ask for one of its names."""
        context.sni_callback = self._chosen

    def _chosen(self, connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name:
            self._look_again()
            if matches(name, self.names):
                connection.context = self._context

    def _look_again(self) -> None:
        now = self._clock.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_EVERY
        stamp = self._stamped()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._context, self.names = _loaded(*self._files)
        except ValueError as error:
            _log.error("%s; the last good certificate stays in use", error)
        else:
            _log.warning("the certificate %s was read again", self._files[0])

    def _stamped(self) -> _Stamp:
        found = []
        for file in self._files:
            try:
                state = file.stat()
            except OSError:
                found.append((0, 0, 0))
            else:
                found.append((state.st_mtime_ns, state.st_ino, state.st_size))
        return tuple(found)


def matches(name: str, names: frozenset[str]) -> bool:
    """As browsers match: a wildcard stands for one label."""
    name = name.lower().rstrip(".")
    return name in names or f"*.{name.partition('.')[2]}" in names


def _loaded(certificate: Path, key: Path) -> tuple[ssl.SSLContext, frozenset[str]]:
    from cryptography import x509

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        # A password would be asked for on a terminal that a server does not have.
        context.load_cert_chain(certificate, key, password=_no_password)
        found = x509.load_pem_x509_certificates(certificate.read_bytes())[0]
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise ValueError(f"--tls-cert {certificate}: the certificate names no host (subjectAltName)") from None
    except (OSError, ValueError, ssl.SSLError) as error:
        words = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
        raise ValueError(f"--tls-cert {certificate}, --tls-key {key}: {words}") from None
    hosts = frozenset(each.lower() for each in names.get_values_for_type(x509.DNSName))
    if not hosts:
        raise ValueError(f"--tls-cert {certificate}: the certificate names no host (subjectAltName)")
    return context, hosts


def _no_password() -> str:
    raise ValueError("the key is encrypted; a key without a password is needed")
