"""ByteViews: numbers at many positions of the same bytes."""

import numpy as np
import pytest

from connectors.metadata.byte_views import ByteViews
from tests.unit.connectors.metadata.metadata_bytes import uvarint


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 16_383, 16_384, 2_097_151])
def test_varints_of_up_to_three_bytes_are_read_beside_others(value: int) -> None:
    parts = [uvarint(5), uvarint(value), uvarint(70_000), b"\x07"]
    content = b"".join(parts)
    at = np.cumsum([0, *map(len, parts[:-1])])

    values, after = ByteViews(content, 0, len(content)).uvarints(at)

    assert values.tolist() == [5, value, 70_000, 7]
    assert after.tolist() == np.cumsum([*map(len, parts)]).tolist()


def test_a_longer_varint_is_no_value() -> None:
    content = uvarint(2_097_152)

    values, _ = ByteViews(content, 0, len(content)).uvarints(np.array([0]))

    assert values.tolist() == [-1]
