"""Whether a server that was started is ready, and if not, why: in words for the person who waits for it."""

import http.client
import ssl
import subprocess
import time
from typing import NamedTuple
from urllib.parse import urlsplit

import click

from gpuaas.assembly.home import Home, Running
from gpuaas.base.clock import SystemClock, rfc3339

_START_LIMIT = 30.0
_FOR_EACH = 5.0  # more for each cluster: they start one after another


def wait_ready(home: Home, process: subprocess.Popen[bytes], clusters: int = 1) -> Running | None:
    """None where it ended by itself; a ClickException says why one that runs does not get ready."""
    deadline = time.monotonic() + _START_LIMIT + _FOR_EACH * clusters
    trouble = "it has not begun to serve"
    while time.monotonic() < deadline:
        running = home.running()
        if running is not None and running.pid == process.pid:
            found = unready(running, home)
            if not found.words:
                return running
            trouble = found.words
            if found.lasting:
                break
        if process.poll() is not None:
            # Another start may have been quicker: then that server is the one.
            return home.running()
        time.sleep(0.02)  # noqa: TID251 - a person waits here too
    process.terminate()
    raise click.ClickException(f"it started (pid {process.pid}) but is not ready, and was stopped: {trouble}")


class Unready(NamedTuple):
    words: str  # "" for a server that is ready
    lasting: bool = False  # waiting does not help


def unready(running: Running, home: Home) -> Unready:
    """Why /readyz does not say ok."""
    address = urlsplit(running.url)
    try:
        trusted = ssl.create_default_context(cafile=str(home.certificates / "ca.crt"))
    except OSError as error:
        return Unready(f"{home.certificates / 'ca.crt'} cannot be used: {error}", lasting=True)
    connection = http.client.HTTPSConnection(address.hostname or "", address.port, timeout=5, context=trusted)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        return Unready("" if answer.status == 200 else f"/readyz says {answer.status}: {answer.read(500)!r}")
    except ssl.SSLCertVerificationError as error:
        words = f"its certificate {home.certificates / 'serving.crt'} is refused: {error.verify_message}"
        return Unready(f"{words} (the clock of this machine says {rfc3339(SystemClock().now())})", lasting=True)
    except (OSError, http.client.HTTPException) as error:
        return Unready(f"{running.url} does not answer: {error}")
    finally:
        connection.close()
