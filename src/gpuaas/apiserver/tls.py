"""What the server shows its clients, and whom it believes: the files, and TLS made of them."""

import ssl
from typing import NamedTuple


class Tls(NamedTuple):
    certificate: str
    key: str
    authority: str  # clients may show a certificate of it; they need not

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.authority)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate, self.key)
        return context
