"""Probes and monitors find the checks where the real server has them, under its names."""

from typing import Any

import pytest

from gpuaas.apiserver.health import Health


@pytest.mark.parametrize(
    ("path", "query", "status", "text"),
    [
        ("/healthz", {}, 200, "ok"),
        ("/livez", {"verbose": "1"}, 200, "[+]ping ok\n[+]log ok\n[+]etcd ok\nlivez check passed\n"),
        ("/readyz", {"verbose": ""}, 200, "[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]shutdown ok\nreadyz check passed\n"),
        (
            "/livez",
            {"verbose": "", "exclude": ["etcd", "nope"]},
            200,
            "[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\n"
            'warn: some health checks cannot be excluded: no matches for "nope"\nlivez check passed\n',
        ),
        ("/readyz/etcd", {}, 200, "ok"),
        ("/livez/ping", {}, 200, "ok"),
        ("/livez/shutdown", {}, 404, "404 page not found\n"),
        ("/healthz/nope", {}, 404, "404 page not found\n"),
    ],
)
def test_a_server_that_is_well(api: Any, path: str, query: dict[str, Any], status: int, text: str) -> None:
    answer = api.send("GET", path, headers={"authorization": ""}, **query)
    assert (answer.status, answer.body) == (status, text)


def test_a_server_that_ends_is_alive_but_not_ready(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.server, "ready", False)
    assert api.send("GET", "/livez").status == 200
    answer = api.send("GET", "/readyz")
    assert (answer.status, answer.body) == (
        500,
        "[+]ping ok\n[+]log ok\n[+]etcd ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n",
    )
    assert api.send("GET", "/readyz/shutdown").status == 500
    assert api.send("GET", "/readyz", exclude="shutdown").status == 200


def test_monitors_are_told_what_was_found(api: Any) -> None:
    api.server.health = Health()
    for _ in range(2):
        api.send("GET", "/livez")
    lines = api.send("GET", "/metrics/slis").body.splitlines()
    assert 'kubernetes_healthcheck{name="etcd",type="livez"} 1' in lines
    assert 'kubernetes_healthchecks_total{name="etcd",status="success",type="livez"} 2' in lines


def test_a_store_that_is_broken_is_found() -> None:
    health = Health()
    assert health.answer("livez", stored=False, ending=False, query={}).status == 500
    told = health.metrics().decode()
    assert 'kubernetes_healthcheck{name="etcd",type="livez"} 0' in told
    assert 'kubernetes_healthchecks_total{name="etcd",status="error",type="livez"} 1' in told
