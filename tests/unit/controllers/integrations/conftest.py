"""The cluster most tests share; each has a namespace of its own in it."""

from collections.abc import Iterator

import pytest

from gpuaas.client.kueue import PRIORITY_CLASSES
from gpuaas.kueue.integrations.config import JobsConfig
from gpuaas.testing.server import House


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    made = House(tmp_path_factory.mktemp("house"), JobsConfig())
    made.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    made.create(PRIORITY_CLASSES, {"metadata": {"name": "low"}, "value": 10})
    yield made
    made.close()
