"""Who we say we are, freshly: the headers and certificates of one kubeconfig user.

Token files are read again each minute; exec plugins (client.authentication.k8s.io) are run when what they gave has
expired. Nothing secret is logged or kept on disk.
"""

import asyncio
import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from gpuaas.base.clock import Clock, parse_rfc3339
from gpuaas.client.kubeconfig import Access, KubeconfigError

TOKEN_FILE_SECONDS = 60.0
EXPIRY_MARGIN = 10.0


class Credentials:
    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._token = ""
        self._token_until = 0.0
        self._from_exec: Mapping[str, Any] = {}
        self._lock = asyncio.Lock()

    async def headers(self) -> list[tuple[str, str]]:
        access = self._access
        headers = []
        if access.token:
            headers.append(("Authorization", f"Bearer {access.token}"))
        elif access.token_file is not None or access.exec is not None:
            token = await self._fresh_token()
            if token:
                headers.append(("Authorization", f"Bearer {token}"))
        elif access.username:
            pair = base64.b64encode(f"{access.username}:{access.password}".encode()).decode()
            headers.append(("Authorization", f"Basic {pair}"))
        if "as" in access.impersonate:
            headers.append(("Impersonate-User", access.impersonate["as"]))
        if "as-uid" in access.impersonate:
            headers.append(("Impersonate-Uid", access.impersonate["as-uid"]))
        headers += [("Impersonate-Group", group) for group in access.impersonate.get("as-groups", ())]
        return headers

    async def ssl_context(self) -> ssl.SSLContext | None:
        """None for a plain http:// server."""
        access = self._access
        if access.server.startswith("http://"):
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if access.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif access.certificate_authority:
            context.load_verify_locations(cadata=access.certificate_authority)
        else:
            context.load_default_certs()
        certificate, key = access.client_certificate, access.client_key
        if access.exec is not None:
            await self._fresh_token()
            certificate = self._from_exec.get("clientCertificateData") or certificate
            key = self._from_exec.get("clientKeyData") or key
        if certificate:
            _load_certificate(context, certificate, key)
        return context

    def expire(self) -> None:
        """The server refused what we sent (401): fetch it again next time."""
        self._token_until = 0.0

    async def _fresh_token(self) -> str:
        async with self._lock:
            if self._clock.now() < self._token_until:
                return self._token
            if self._access.token_file is not None:
                self._token = self._access.token_file.read_text().strip()
                self._token_until = self._clock.now() + TOKEN_FILE_SECONDS
            elif self._access.exec is not None:
                self._from_exec = await run_plugin(self._access.exec)
                self._token = self._from_exec.get("token") or ""
                expiry = self._from_exec.get("expirationTimestamp")
                self._token_until = parse_rfc3339(expiry) - EXPIRY_MARGIN if expiry else float("inf")
            return self._token


async def run_plugin(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Run an exec plugin and give the status of the ExecCredential it prints."""
    api_version = config.get("apiVersion") or "client.authentication.k8s.io/v1"
    request = {"kind": "ExecCredential", "apiVersion": api_version, "spec": {"interactive": False}}
    environment = dict(os.environ)
    environment.update({entry["name"]: entry["value"] for entry in config.get("env") or ()})
    environment["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(request).decode()
    command = config.get("command") or ""
    try:
        process = await asyncio.create_subprocess_exec(
            command,
            *(config.get("args") or ()),
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f": {config['installHint']}" if config.get("installHint") else ""
        raise KubeconfigError(f"cannot run the exec plugin {command}: {error.strerror}{hint}") from error
    out, err = await process.communicate()
    if process.returncode:
        raise KubeconfigError(f"the exec plugin {command} failed ({process.returncode}): {err.decode().strip()}")
    try:
        credential = msgspec.json.decode(out)
        status = credential["status"]
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise KubeconfigError(f"the exec plugin {command} printed no ExecCredential with a status") from error
    if not isinstance(status, dict):
        raise KubeconfigError(f"the exec plugin {command} printed an ExecCredential whose status is not a map")
    return status


def _load_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    # The ssl module reads certificates from files only; this one lives for a moment and is ours alone.
    handle, path = tempfile.mkstemp()
    try:
        with os.fdopen(handle, "w") as file:
            file.write(certificate + "\n" + key)
        context.load_cert_chain(path)
    finally:
        Path(path).unlink()
