"""The sections of a stored state are zlib streams with tables of the size that their content needs."""

import zlib
from random import Random

import pytest

from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.stored_topics import deflated
from tests.unit.streaming.replay.test_cluster_monitor import monitor, outage

HEADER = 4
"""Bytes of name and version before the first section's length."""


def window(stream: bytes) -> int:
    """Returns the bytes of the window that a zlib stream was written with (RFC 1950, CINFO)."""
    return 1 << (stream[0] >> 4) + 8


def first_section(sections: bytes) -> tuple[bytes, bytes]:
    """Returns the first section, and what follows it."""
    end = 4 + int.from_bytes(sections[:4], "big")
    return sections[4:end], sections[end:]


def sections(of: ClusterMonitor) -> tuple[bytes, bytes]:
    """Returns the tracked conditions and the hot section of a stored monitor."""
    tracked, machine = first_section(of.to_bytes()[HEADER:])
    return tracked, first_section(machine)[0]


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 16_383, 16_384, 16_385, 400_000])
@pytest.mark.parametrize("characters", [b"a", b'{"now_ms":0123456789}', bytes(range(256))])
def test_content_of_any_size_is_read(size: int, characters: bytes) -> None:
    content = bytes(Random(size).choices(characters, k=size))

    assert zlib.decompress(deflated(content)) == content


def test_tables_of_a_small_state_are_small() -> None:
    quorum = monitor()
    without_conditions = sections(quorum)
    quorum.apply(outage())

    assert [window(section) for section in without_conditions] == [1 << 9, 1 << 14]
    assert {window(section) for section in sections(quorum)} <= {1 << 9, 1 << 14}
    assert window(deflated(b"0123" * 10_000)) == 1 << 15
