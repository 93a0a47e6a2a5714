"""ByteViews: numbers at many positions of the same bytes."""

from base64 import urlsafe_b64encode

import numpy as np
import pytest

from connectors.metadata.byte_views import ByteViews, uuid_texts
from tests.unit.connectors.metadata.metadata_bytes import uvarint


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 16_383, 16_384, 2_097_151])
def test_varints_of_up_to_three_bytes_are_read_beside_others(value: int) -> None:
    parts = [uvarint(5), uvarint(value), uvarint(70_000), b"\x07"]
    content = b"".join(parts)
    at = np.cumsum([0, *map(len, parts[:-1])])

    values, after = ByteViews(content, 0, len(content)).uvarints(at)

    assert values.tolist() == [5, value, 70_000, 7]
    assert after.tolist() == np.cumsum([*map(len, parts)]).tolist()


@pytest.mark.parametrize("varint", [uvarint(2_097_152), b"\x80\0", b"\x85\0", b"\xff\x80\0"])
def test_a_varint_of_more_bytes_than_three_or_than_needed_is_no_value(varint: bytes) -> None:
    content = uvarint(300) + varint

    values, _ = ByteViews(content, 0, len(content)).uvarints(np.array([0, 2]))

    assert values.tolist() == [300, -1]


def test_node_ids_of_several_records_are_int32() -> None:
    nodes = ByteViews(np.arange(6, dtype=">i4").tobytes(), 0, 24).nodes(np.array([12, 0]), 3)

    assert nodes.tolist() == [[3, 4, 5], [0, 1, 2]]
    assert nodes.dtype == np.int32


def test_an_id_with_one_half_of_the_first_and_one_of_the_one_before_is_another_id() -> None:
    halves = [(1, 1), (2, 1), (1, 1), (1, 1), (1, 2), (3, 2)]
    ids = [high.to_bytes(8, "big") + low.to_bytes(8, "big") for high, low in halves]

    texts = uuid_texts(np.frombuffer(b"".join(ids), np.uint8).reshape(-1, 16))

    assert [row.tobytes() for row in texts] == [urlsafe_b64encode(one).rstrip(b"=") for one in ids]
