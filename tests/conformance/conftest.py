"""One running control plane for the tests that only use it; tests that kill or restart theirs start their own."""

from collections.abc import Iterator

import pytest
from tests.conformance.service import Service


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("conformance") / "home") as running:
        yield running
