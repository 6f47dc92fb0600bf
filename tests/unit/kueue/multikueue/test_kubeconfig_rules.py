"""Which kubeconfigs of workers are refused, and in which words."""

from __future__ import annotations

import pytest
import yaml

from gpuaas.kueue.multikueue.kubeconfig_rules import InsecureKubeConfig, read_kubeconfig

GOOD = {"server": "https://10.0.0.1:6443", "certificate-authority-data": "YQ=="}


def kubeconfig(cluster: object = None, user: object = None, **more: object) -> bytes:
    whole = {
        "clusters": [{"name": "w", "cluster": GOOD if cluster is None else cluster}],
        "users": [{"name": "u", "user": {"token": "t"} if user is None else user}],
        "contexts": [{"name": "w", "context": {"cluster": "w", "user": "u"}}],
        "current-context": "w",
        **more,
    }
    return yaml.safe_dump(whole).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "failed to parse kubeconfig"),
        (b"\xff", "failed to parse kubeconfig"),
        (b"[]", "failed to parse kubeconfig"),
        (b"x" * (1 << 21), "failed to parse kubeconfig: 2097152 bytes, at most 65536 are allowed"),
        (kubeconfig(user={"tokenFile": "/etc/token"}), "tokenFile is not allowed"),
        (
            kubeconfig({**GOOD, "insecure-skip-tls-verify": True}),
            "insecure TLS verification is not allowed for cluster w",
        ),
        (
            kubeconfig({"server": "https://x.example", "certificate-authority": "/etc/ca"}),
            "certificate-authority file paths are not allowed, use certificate-authority-data for cluster w",
        ),
        (kubeconfig({"server": ""}), "server URL is required for cluster w"),
        (kubeconfig({"server": "https://no_host:1"}), "untrusted server endpoint"),
        (kubeconfig({"server": "https://[::1"}), "untrusted server endpoint"),
        (kubeconfig(user={"username": "a", "password": "b"}), "basic auth is not allowed"),
        (kubeconfig(user={"exec": {"command": "x"}}), "exec plugins are not allowed"),
        (kubeconfig(user={"auth-provider": {"name": "x"}}), "auth providers are not allowed"),
        (
            kubeconfig(user={"client-certificate": "/etc/a", "client-key": "/etc/b"}),
            "client-certificate file paths are not allowed, use client-certificate-data for user u",
        ),
        (
            kubeconfig(users=[{"name": "u", "user": {"token": "t"}}, {"name": "other", "user": {"exec": {"command": "x"}}}]),
            "exec plugins are not allowed",
        ),
        (kubeconfig(users={"u": 1}), "failed to parse kubeconfig: users must be a list"),
    ],
)  # fmt: skip
def test_a_kubeconfig_that_trusts_too_much_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(InsecureKubeConfig) as refused:
        read_kubeconfig(data)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    "data",
    [
        kubeconfig(),
        kubeconfig({"server": "http://worker.example:80"}),
        kubeconfig(user={"client-certificate-data": "YQ==", "client-key-data": "YQ=="}),
    ],
)
def test_inline_credentials_are_accepted(data: bytes) -> None:
    assert read_kubeconfig(data)["current-context"] == "w"


def test_a_file_on_the_hub_may_name_certificates_beside_it() -> None:
    assert read_kubeconfig(kubeconfig(user={"client-certificate": "a", "client-key": "b"}), own_files=True)
