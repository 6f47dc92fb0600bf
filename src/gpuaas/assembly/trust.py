"""What the control plane is trusted by and trusts: its CA, its serving certificate, its people, its signing key."""

import os
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from gpuaas.apiserver.security.certs import Authority, serving_names
from gpuaas.apiserver.security.identity import MASTERS
from gpuaas.apiserver.security.keys import SigningKey
from gpuaas.apiserver.security.tokens import Users
from gpuaas.base.clock import Clock
from gpuaas.base.ids import IdSource
from gpuaas.client.kubeconfig import KubeconfigError, load

ADMIN = "admin"


class Trust:
    def __init__(self, folder: Path, users: Path, clock: Clock) -> None:
        if not (folder / "serving.json").exists():
            # Making certificates loads 14 MB that are not needed afterwards, so a child process does it.
            _beside(lambda: Authority(folder, clock.now()).serving(serving_names(socket.gethostname())))
        self.authority = Authority(folder, clock.now())
        self.authority_pem = self.authority.certificate.decode()
        self.users = Users(users, clock)
        self._clock = clock
        self._signing_key = folder / "service-accounts.key"

    def signing_key(self) -> SigningKey:
        return SigningKey.at(self._signing_key)

    def sign(self, cluster: str, request: bytes, usages: Sequence[str], seconds: float) -> bytes:
        """A client certificate for the key of the request, good in that cluster."""
        return self.authority.sign(request, usages, seconds, cluster, self._clock.now())

    def serving_context(self, host: str, names: tuple[str, ...]) -> ssl.SSLContext:
        """TLS for the server. A client may show a certificate of our CA; it need not."""
        extra = [*names, *([host] if host not in ("0.0.0.0", "::", "localhost") else [])]
        certificate, key = self.authority.serving(serving_names(socket.gethostname(), extra))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.authority.certificate_file))
        context.verify_mode = ssl.CERT_OPTIONAL
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(certificate, key)
        return context

    def needs_renewal(self) -> bool:
        return not self.authority.is_current(self._clock.now())

    def renew(self) -> None:
        """Makes the serving certificate again; to be left to a thread, then given to `use_renewed`."""
        self.authority.renew(self._clock.now())

    def use_renewed(self, context: ssl.SSLContext) -> None:
        """Connections that come from now on get the new certificate."""
        context.load_verify_locations(cafile=str(self.authority.certificate_file))
        context.load_cert_chain(*self.authority.serving_files)

    def admin_token(self, kubeconfig: Path, context: str, ids: IdSource) -> str:
        """The administrator's token: the one in the kubeconfig while it is good, else a new one."""
        try:
            token = load([kubeconfig]).access(context).token
        except (KubeconfigError, OSError):
            token = ""
        user = self.users.authenticate(token) if token else None
        if user is not None and MASTERS in user.groups:
            return token
        self.users.remove(ADMIN)
        return self.users.add(ADMIN, ids, groups=(MASTERS,))[1]


def _beside(work: Callable[[], object]) -> None:
    """Does it in a child process where that is safe; whatever is missing after it is made here, with words if it fails."""
    if sys.platform != "linux" or threading.active_count() > 1 or "cryptography" in sys.modules:
        return
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        work()
    finally:
        os._exit(0)  # nothing of the parent's is this one's to clean up
