"""SoundBatchSearch: the work is bounded, whatever the bytes are. What it finds: test_fetched_batches."""

import time

import pytest

from connectors.metadata.batches import HEADER
from connectors.metadata.damaged_bytes import SoundBatchSearch


@pytest.mark.parametrize("length", [49, 4 * 1024 * 1024], ids=["small", "large"])
def test_many_headers_of_damaged_batches_take_little_time(length: int) -> None:
    size = 8 * 1024 * 1024
    header = HEADER.pack(1, length, 3, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)
    search = SoundBatchSearch(header * (size // HEADER.size))

    started = time.process_time()
    found = [search.next(at, expected=0, high_watermark=9, epochs=range(3, 4)) for at in range(0, 61_000, 61)]

    assert found == [None] * 1000
    assert time.process_time() - started < 5
