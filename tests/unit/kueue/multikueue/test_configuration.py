"""The `multiKueue` part of Kueue's configuration: what is read, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpuaas.kueue.configuration.file import ConfigurationError, configuration_of
from gpuaas.kueue.multikueue.rules import INCREMENTAL, MultiKueueRules


def document(**multikueue: Any) -> dict[str, Any]:
    return {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "multiKueue": multikueue}


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        ({}, MultiKueueRules()),
        (
            {"origin": "hub-a", "gcInterval": "0s", "workerLostTimeout": "3m"},
            MultiKueueRules("hub-a", 0.0, 180.0),
        ),
        (
            {"dispatcherName": INCREMENTAL, "incrementalDispatcherConfig": {"stepSize": 2}},
            MultiKueueRules(dispatcher=INCREMENTAL, step_size=2),
        ),
    ],
)
def test_what_is_read(given: dict[str, Any], rules: MultiKueueRules) -> None:
    assert configuration_of(document(**given)).configuration.multikueue == rules


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"origin": "no spaces"}, "multiKueue.origin"),
        ({"workerLostTimeout": "soon"}, "multiKueue.workerLostTimeout"),
        ({"gcInterval": "-1s"}, "multiKueue.gcInterval"),
        ({"incrementalDispatcherConfig": {"stepSize": 0}}, "multiKueue.incrementalDispatcherConfig.stepSize"),
    ],
)
def test_what_is_refused(given: dict[str, Any], refusal: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        configuration_of(document(**given))
    assert refusal in str(refused.value)
