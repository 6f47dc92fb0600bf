"""A server that runs for years: its certificate is renewed in place, for the connections that come after."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from gpuaas.assembly.control_plane import ControlPlane, Settings
from gpuaas.assembly.home import Home
from gpuaas.base.clock import VirtualClock

_DAY = 86_400.0


async def end_of_certificate(plane: ControlPlane) -> float:
    """When the certificate ends that a new connection is shown."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", int(plane.url.rpartition(":")[2]), ssl=trusting)
    tls = writer.get_extra_info("ssl_object")
    certificate = x509.load_der_x509_certificate(tls.getpeercert(binary_form=True))
    writer.close()
    return certificate.not_valid_after_utc.timestamp()


async def after(plane: ControlPlane, clock: VirtualClock, days: float, *, renewed: bool) -> float:
    """Moves the clock and waits for what the server does then."""
    before = await end_of_certificate(plane)
    clock.advance(days * _DAY)
    ends = before
    for _ in range(500):
        clock.advance(30.0)
        await asyncio.sleep(0.01)
        ends = await end_of_certificate(plane)
        if not renewed or ends != before:
            break
    assert (ends != before) is renewed
    return ends


def test_it_is_renewed_while_it_serves(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        async with ControlPlane(Home(tmp_path / "home"), Settings(fsync=False), clock) as plane:
            await after(plane, clock, 100, renewed=False)
            assert await after(plane, clock, 236, renewed=True) > clock.now() + 364 * _DAY
            await after(plane, clock, 336, renewed=True)

    asyncio.run(scenario())


def test_what_fails_is_logged_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        clock, home = VirtualClock(), Home(tmp_path / "home")
        async with ControlPlane(home, Settings(fsync=False), clock) as plane:
            key = (home.certificates / "ca.key").read_bytes()
            (home.certificates / "ca.key").write_bytes(b"damaged")
            clock.advance(340 * _DAY)
            for _ in range(300):
                clock.advance(30.0)
                await asyncio.sleep(0.01)
                if "could not be renewed" in caplog.text:
                    break
            assert caplog.text.count("could not be renewed") == 1
            (home.certificates / "ca.key").write_bytes(key)
            await after(plane, clock, 0.05, renewed=True)

    asyncio.run(scenario())
