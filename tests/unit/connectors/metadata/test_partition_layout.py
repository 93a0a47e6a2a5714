"""A layout is found only for records that their schema reads completely, and for all records alike."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.metadata.byte_views import ByteViews
from connectors.metadata.field_readers import field_reader, read_body
from connectors.metadata.partition_layout import partition_layout, uniform_partitions
from connectors.metadata.record_schemas import record_schemas
from tests.unit.connectors.metadata.metadata_record_schemas import kafka_values, values, written
from tests.unit.connectors.metadata.unusual_records import PARTITIONS, USUAL, change, numbers, partition


def assert_layout(body: bytes, api_key: int, version: int) -> None:
    """A record of a layout is read completely by its schema."""
    if partition_layout(body, changed=api_key == 5, version=version) is not None:
        read_body(field_reader(record_schemas().records[api_key].versions[version]), body)


@pytest.mark.parametrize("name", PARTITIONS)
def test_usual_and_unusual_records(name: str) -> None:
    api_key, version, body = PARTITIONS[name]

    assert_layout(body, api_key, version)
    if name in USUAL:
        assert partition_layout(body, changed=api_key == 5, version=version) is not None


@pytest.mark.parametrize(("api_key", "version"), [(key, version) for key in (3, 5) for version in (0, 1, 2)])
@settings(max_examples=100)
@given(st.data())
def test_any_record(api_key: int, version: int, data: st.DataObject) -> None:
    fields = record_schemas().records[api_key].versions[version]
    body = bytearray(written(fields, data.draw(kafka_values(fields) | values(fields))))
    assert_layout(bytes(body), api_key, version)

    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    assert_layout(bytes(body), api_key, version)


def test_records_of_one_length_and_several_layouts_are_distinguished() -> None:
    """Two nodes fewer here are two nodes more there: the length is the same."""
    one, other = (
        partition(),
        partition(replicas=b"\2" + bytes(4), isr=b"\5" + b"".join(bytes((0, 0, 0, n)) for n in b"\1\2\3\4")),
    )
    assert len(one) == len(other)
    both = one[3:] * 70 + other[3:] * 80 + one[3:]
    size = len(one) - 3
    count = len(both) // size
    views = ByteViews(both, 0, len(both))
    at = np.arange(count) * size
    of_type, version = np.full(count, 3, np.uint8), np.full(count, 2, np.uint8)

    found = uniform_partitions(views, of_type, version, at, at + size)

    assert [each.rows.tolist() for each in found] == [[*range(70), 150], [*range(70, 150)]]
    assert [each.layout.lists[1][1] for each in found] == [2, 4]
    assert [each.bodies.tobytes() for each in found] == [one[3:] * 71, other[3:] * 80]
    assert not any(each.changed for each in found)


@pytest.mark.parametrize("at", [20, 21, 22, 27, 28], ids=["tags", "tag", "size", "second tag", "second size"])
def test_a_record_of_another_number_of_tags_or_another_tag_or_size_is_of_no_layout(at: int) -> None:
    leader_and_state = change(t1=numbers(5), t5=b"\1")[3:]
    other = bytearray(leader_and_state)
    other[at] ^= 2
    size = len(other)
    views = ByteViews(leader_and_state * 70 + bytes(other), 0, 71 * size)
    begin = np.arange(71) * size

    found = uniform_partitions(views, np.full(71, 5), np.full(71, 2), begin, begin + size)

    assert [each.rows.tolist() for each in found] == [[*range(70)]]
    assert all(each.changed for each in found)
