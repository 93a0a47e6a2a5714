"""A loop to run coroutines in."""

from collections.abc import Iterator

import pytest

from connectors.kafka.loop import Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()
