"""An administrator's certificate is shown for its names, ours for all others; a renewal is taken up while it serves."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from gpuaas.apiserver.security.certs import Authority
from gpuaas.assembly.own_certificate import OwnCertificate, matches
from gpuaas.base.clock import VirtualClock


def issue(folder: Path, *names: str) -> tuple[Path, Path]:
    """A leaf for these names, of a CA in the folder; another one each time."""
    (folder / "serving.json").unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    return Authority(folder, 1_767_225_600.0).serving(names)


def shown(context: ssl.SSLContext, name: str | None) -> bytes | None:
    """The certificate (DER) that a client of that name gets, without a network."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.set_alpn_protocols(["h2"])
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = context.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname=name)
    done = 0
    for _ in range(10):
        done = 0
        for side in (theirs, ours):
            try:
                side.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                pass
        if done == 2:
            break
    assert done == 2
    assert theirs.selected_alpn_protocol() == "h2"
    return theirs.getpeercert(binary_form=True)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def base(tmp_path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*issue(tmp_path / "ours", "localhost"))
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


def test_each_name_gets_its_certificate(tmp_path: Path, base: ssl.SSLContext, clock: VirtualClock) -> None:
    files = issue(tmp_path / "theirs", "gpus.example.com", "*.gpus.example.com")
    OwnCertificate(*files, clock).serve(base)
    theirs = ssl.PEM_cert_to_DER_cert(files[0].read_text())
    assert shown(base, "gpus.example.com") == theirs
    assert shown(base, "GPUS.example.com") == theirs
    assert shown(base, "lab.gpus.example.com") == theirs
    assert shown(base, "localhost") != theirs
    assert shown(base, None) != theirs
    assert shown(base, "127.0.0.1") != theirs


def test_a_renewal_is_taken_up_and_a_broken_one_is_not(
    tmp_path: Path, base: ssl.SSLContext, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    files = issue(tmp_path / "theirs", "gpus.example.com")
    OwnCertificate(*files, clock).serve(base)
    first = shown(base, "gpus.example.com")
    files[0].write_text("not a certificate")
    clock.advance(2)
    assert shown(base, "gpus.example.com") == first
    assert "the last good certificate stays in use" in caplog.text
    issue(tmp_path / "theirs", "gpus.example.com")
    clock.advance(2)
    assert shown(base, "gpus.example.com") == ssl.PEM_cert_to_DER_cert(files[0].read_text()) != first


@pytest.mark.parametrize("broken", ["no certificate", "another key", "no names", "no file"])
def test_files_that_do_not_go_are_refused_with_their_names(tmp_path: Path, clock: VirtualClock, broken: str) -> None:
    certificate, key = issue(tmp_path / "theirs", *([] if broken == "no names" else ["gpus.example.com"]))
    match broken:
        case "no certificate":
            certificate.write_text("x")
        case "another key":
            key.write_bytes(issue(tmp_path / "other", "x.example.com")[1].read_bytes())
        case "no file":
            key.unlink()
    with pytest.raises(ValueError, match=r"--tls-cert .*serving\.crt"):
        OwnCertificate(certificate, key, clock)


@pytest.mark.parametrize(
    ("name", "is_theirs"),
    [
        ("gpus.example.com", True),
        ("a.gpus.example.com", True),
        ("a.b.gpus.example.com", False),
        ("gpus.example.com.", True),
        ("example.com", False),
        ("", False),
    ],
)
def test_names_match_as_in_browsers(name: str, is_theirs: bool) -> None:
    assert matches(name, frozenset(("gpus.example.com", "*.gpus.example.com"))) is is_theirs
