"""What reading and writing kubeconfigs promises: kubectl's rules, and words for what does not hold together."""

import base64
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuaas.client.kubeconfig import KubeconfigError, add_context, encode, load, remove_context


def _write(path: Path, **parts: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **parts}))
    return path


def _whole(path: Path, name: str = "one", **more: Any) -> Path:
    return _write(
        path,
        clusters=[{"name": name, "cluster": {"server": f"https://{name}:6443", **more.get("cluster", {})}}],
        users=[{"name": name, "user": more.get("user", {"token": f"secret-{name}"})}],
        contexts=[{"name": name, "context": {"cluster": name, "user": name, "namespace": "team"}}],
        **{"current-context": name},
    )


def test_the_current_context_leads_to_server_and_token(tmp_path: Path) -> None:
    access = load([_whole(tmp_path / "c")]).access()
    assert (access.context, access.server, access.token, access.namespace) == (
        "one",
        "https://one:6443",
        "secret-one",
        "team",
    )


def test_of_several_files_the_first_that_names_something_wins(tmp_path: Path) -> None:
    first, second = _whole(tmp_path / "a"), _whole(tmp_path / "b", "two")
    _whole(tmp_path / "c", "one", user={"token": "other"})
    merged = load([first, second, tmp_path / "missing", tmp_path / "c"])
    assert merged.current_context == "one"
    assert merged.access("one").token == "secret-one"
    assert merged.access("two").server == "https://two:6443"


def test_the_environment_names_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _whole(tmp_path / "a"), _whole(tmp_path / "b", "two")
    monkeypatch.setenv("KUBECONFIG", f"{second}:{first}")
    assert load().access().context == "two"


def test_certificates_come_inline_or_from_files_beside_the_config(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("AUTHORITY")
    inline = {"client-certificate-data": encode("CERT"), "client-key-data": encode("KEY")}
    path = _whole(tmp_path / "c", cluster={"certificate-authority": "ca.pem"}, user=inline)
    access = load([path]).access()
    assert (access.certificate_authority, access.client_certificate, access.client_key) == ("AUTHORITY", "CERT", "KEY")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"current-context": ""}, "no current context"),
        ({"current-context": "lost"}, 'context "lost" does not exist'),
        ({"clusters": []}, 'names cluster "one", which'),
        ({"users": []}, 'names user "one", which'),
        ({"clusters": [{"name": "one", "cluster": {"server": "localhost"}}]}, "must be an https:// URL"),
        (
            {"users": [{"name": "one", "user": {"client-key-data": "%%%"}}]},
            "client-key-data in",
        ),
        (
            {"users": [{"name": "one", "user": {"client-key": "nowhere.pem"}}]},
            "cannot read client-key",
        ),
    ],
)
def test_what_does_not_hold_together_is_told(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = _whole(tmp_path / "c")
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **change}))
    with pytest.raises(KubeconfigError) as found:
        load([path]).access()
    assert words in str(found.value)


def test_a_missing_or_broken_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="there is no kubeconfig at"):
        load([tmp_path / "none"])
    (tmp_path / "bad").write_text("a: [")
    with pytest.raises(KubeconfigError, match="is not YAML"):
        load([tmp_path / "bad"])
    with pytest.raises(KubeconfigError, match="cannot be read: Is a directory"):
        load([tmp_path])


def test_adding_a_context_keeps_the_others_and_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = _whole(tmp_path / "deep" / "c")
    add_context(path, "two", cluster={"server": "https://two"}, user={"token": "t"}, namespace="ns")
    assert load([path]).access().context == "one"
    assert load([path]).access("two").namespace == "ns"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    add_context(path, "two", cluster={"server": "https://new"}, user={"token": "u"}, make_current=True)
    assert (load([path]).access().server, len(load([path]).contexts)) == ("https://new", 2)
    remove_context(path, "two")
    assert load([path]).access().context == "one"


def test_a_context_can_be_added_to_no_file_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new"
    add_context(path, "x", cluster={"server": "https://x"}, user={})
    assert load([path]).access().server == "https://x"
    assert base64.b64decode(encode("PEM")) == b"PEM"
