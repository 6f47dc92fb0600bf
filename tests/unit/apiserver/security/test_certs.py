"""The certificate authority: what it makes works in a real TLS handshake, and is renewed when it must be."""

import json
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509

from gpuaas.apiserver.security.certs import Authority, check_name, cluster_of, serving_names, subject_of
from gpuaas.apiserver.security.keys import SigningKey, key_pem, make_key
from gpuaas.base.clock import SystemClock

NOW = SystemClock().now()
DAY = 86_400.0


def handshake(authority: Authority, server_name: str, client: tuple[Path, Path] | None = None) -> bytes | None:
    """A handshake in memory; gives the client certificate the server saw, in DER."""
    certificate, key = authority.serving(serving_names("box", ["gpu.example.com", "10.1.2.3"]))
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)
    serving.load_verify_locations(authority.certificate_file)
    serving.verify_mode = ssl.CERT_OPTIONAL
    asking = ssl.create_default_context(cafile=str(authority.certificate_file))
    if client:
        asking.load_cert_chain(*client)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    browser = asking.wrap_bio(to_client, to_server, server_hostname=server_name)
    waiting = {browser, server}
    while waiting:
        for side in tuple(waiting):
            try:
                side.do_handshake()
                waiting.discard(side)
            except ssl.SSLWantReadError:
                pass
    return server.getpeercert(binary_form=True)


@pytest.mark.parametrize("name", ["127.0.0.1", "::1", "localhost", "box", "kubernetes.default.svc", "gpu.example.com", "10.1.2.3"])  # fmt: skip
def test_a_client_that_trusts_the_authority_accepts_the_server_under_each_of_its_names(
    tmp_path: Path, name: str
) -> None:
    assert handshake(Authority(tmp_path, NOW), name) is None


def test_under_another_name_it_does_not(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(Authority(tmp_path, NOW), "other.example.com")


def test_a_client_certificate_carries_a_user_and_groups(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca", NOW)
    made = authority.client("alice", ["team-a", "team-b"])
    files = tmp_path / "c.crt", tmp_path / "c.key"
    for file, content in zip(files, made, strict=True):
        file.write_bytes(content)
    seen = handshake(authority, "localhost", files)
    assert seen is not None
    assert subject_of(seen) == ("alice", ("team-a", "team-b"))


def test_a_request_is_signed_for_one_cluster(tmp_path: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    authority, key = Authority(tmp_path / "ca", NOW), make_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ann")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    made = authority.sign(request.public_bytes(Encoding.PEM), ["client auth"], int(DAY), "east", NOW)
    files = tmp_path / "c.crt", tmp_path / "c.key"
    files[0].write_bytes(made)
    files[1].write_bytes(key_pem(key))
    seen = handshake(authority, "localhost", files)
    assert seen is not None
    assert (subject_of(seen), cluster_of(seen)) == (("ann", ()), "east")
    read = x509.load_der_x509_certificate(seen)
    assert read.not_valid_after_utc.timestamp() == int(NOW) + int(DAY)
    numbers = [int(number) for one in read.extensions for number in one.oid.dotted_string.split(".")]
    assert max(numbers) < 2**31, "kubectl reads no more"


def test_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    made = Authority(tmp_path / "other", NOW).client("alice", ["system:masters"])
    files = tmp_path / "c.crt", tmp_path / "c.key"
    for file, content in zip(files, made, strict=True):
        file.write_bytes(content)
    with pytest.raises(ssl.SSLError):
        handshake(Authority(tmp_path / "ca", NOW), "localhost", files)


def test_a_serving_certificate_does_not_make_a_client(tmp_path: Path) -> None:
    authority = Authority(tmp_path, NOW)
    with pytest.raises(ssl.SSLError):
        handshake(authority, "localhost", authority.serving(serving_names("box", ["gpu.example.com", "10.1.2.3"])))


def test_keys_are_private(tmp_path: Path) -> None:
    authority = Authority(tmp_path, NOW)
    authority.serving(["localhost"])
    SigningKey.at(tmp_path / "tokens.key")
    keys = sorted(tmp_path.glob("*.key"))
    assert [key.name for key in keys] == ["ca.key", "serving.key", "tokens.key"]
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}


@pytest.mark.parametrize(
    ("names", "later", "renewed"),
    [
        (["localhost", "a"], 0.0, False),
        (["a", "localhost", "a"], 300 * DAY, False),
        (["localhost", "a", "b"], 0.0, True),
        (["localhost"], 0.0, True),
        (["localhost", "a"], 340 * DAY, True),
    ],
)
def test_the_serving_certificate_is_renewed_for_other_names_and_before_its_end(
    tmp_path: Path, names: list[str], later: float, renewed: bool
) -> None:
    before = Authority(tmp_path, NOW).serving(["localhost", "a"])[0].read_bytes()
    authority_before = (tmp_path / "ca.crt").read_bytes()
    after = Authority(tmp_path, NOW + later).serving(names)[0].read_bytes()
    assert (after != before) is renewed
    assert (tmp_path / "ca.crt").read_bytes() == authority_before


@pytest.mark.parametrize("file", ["serving.crt", "serving.key", "serving.json"])
def test_a_damaged_file_is_replaced(tmp_path: Path, file: str) -> None:
    Authority(tmp_path, NOW).serving(["localhost"])
    (tmp_path / file).write_bytes(b"damaged")
    certificate, key = Authority(tmp_path, NOW).serving(["localhost"])
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("Example.COM.", "example.com"),
        ("[::1]", "::1"),
        ("0:0::1", "::1"),
        ("*.x.io", "*.x.io"),
        ("10.0.0.1", "10.0.0.1"),
    ],
)
def test_names_have_one_spelling(name: str, spelled: str) -> None:
    assert check_name(name) == spelled


@pytest.mark.parametrize("name", ["", "a b", "http://x", "x..y", "*.*.y", "under_score", "x:6443"])
def test_what_is_no_name_is_refused_with_words(name: str) -> None:
    with pytest.raises(ValueError, match="is neither an IP address nor a DNS name"):
        check_name(name)


def test_a_start_with_good_certificates_does_not_import_cryptography(tmp_path: Path) -> None:
    Authority(tmp_path, NOW).serving(["localhost"])
    code = (
        "import sys; from pathlib import Path\n"
        "from gpuaas.apiserver.security import authn, reviews, escalation, impersonation, bootstrap\n"
        "from gpuaas.apiserver.security.certs import Authority\n"
        f"Authority(Path({str(tmp_path)!r}), {NOW!r}).serving(['localhost'])\n"
        "sys.exit('cryptography' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def validity(path: Path) -> tuple[float, float]:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    return certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()


@pytest.mark.parametrize("ahead", [DAY, 400 * DAY, 20 * 365 * DAY])
def test_what_is_not_valid_yet_is_replaced_once_the_clock_is_right(tmp_path: Path, ahead: float) -> None:
    Authority(tmp_path, NOW + ahead).serving(["localhost"])
    key = (tmp_path / "ca.key").read_bytes()
    authority = Authority(tmp_path, NOW)
    assert handshake(authority, "localhost") is None
    assert (tmp_path / "ca.key").read_bytes() == key


def test_a_certificate_of_an_expired_authority_works_again(tmp_path: Path) -> None:
    Authority(tmp_path, NOW - 11 * 365 * DAY).serving(["localhost"])
    assert handshake(Authority(tmp_path, NOW), "localhost") is None


def test_the_authority_is_renewed_for_the_same_key_long_before_its_end(tmp_path: Path) -> None:
    before = NOW - (3650 - 380) * DAY
    Authority(tmp_path, before).serving(["localhost"])
    old = (tmp_path / "ca.crt").read_bytes()
    authority = Authority(tmp_path, NOW)
    authority.serving(["localhost"])
    assert (tmp_path / "ca.crt").read_bytes() != old
    assert validity(tmp_path / "serving.crt")[1] < validity(tmp_path / "ca.crt")[1]
    authority.certificate_file = tmp_path / "old.crt"  # of a client that still has the copy it was given
    authority.certificate_file.write_bytes(old)
    trusting = ssl.create_default_context(cafile=str(authority.certificate_file))
    assert trusting.get_ca_certs()
    subprocess.run(
        ["openssl", "verify", "-CAfile", tmp_path / "old.crt", tmp_path / "serving.crt"], check=True, timeout=20
    )


def test_a_note_of_an_earlier_version_is_no_reason_to_make_another_authority(tmp_path: Path) -> None:
    Authority(tmp_path, NOW).serving(["localhost"])
    before = (tmp_path / "ca.crt").read_bytes()
    note = json.loads((tmp_path / "serving.json").read_text())
    del note["starts"], note["authority"]
    (tmp_path / "serving.json").write_text(json.dumps(note))
    Authority(tmp_path, NOW).serving(["localhost"])
    assert (tmp_path / "ca.crt").read_bytes() == before
    assert "authority" in json.loads((tmp_path / "serving.json").read_text())
