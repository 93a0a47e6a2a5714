"""Texts of many records are checked side by side as they would be one by one."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connectors.event_block import Positions
from connectors.metadata.byte_views import ByteViews
from connectors.metadata.name_shape import (
    NameShape,
    are_ascii,
    are_legal_names,
    config_shape,
    is_legal_name,
    topic_shape,
)
from connectors.metadata.value_limits import LARGEST_STRING
from tests.unit.connectors.metadata.metadata_bytes import tagged, text, uvarint

texts = st.lists(
    st.binary(max_size=20) | st.text("a", max_size=80).map(str.encode) | st.text("aé._", max_size=80).map(str.encode)
)


def laid_out(found: list[bytes]) -> tuple[ByteViews, Positions, Positions]:
    """Returns the texts with a byte that is no ASCII before and after each, and where each begins and ends."""
    content = b"\xff" + b"\xff".join(found) + b"\xff"
    length = np.array([len(text) for text in found], np.int64)
    stop = np.cumsum(length + 1)
    return ByteViews(content, 0, len(content)), stop - length, stop


@given(texts)
@example([b"a" * size for size in range(140)])
@example([b"a" * at + b"\x80" + b"a" * (70 - at) for at in range(71)])
def test_texts_in_ascii_are_found(found: list[bytes]) -> None:
    assert are_ascii(*laid_out(found)).tolist() == [text.isascii() for text in found]


@given(texts)
@example([b"a", b"", b"b"])
@example([b"a\n", b"b"])
def test_names_that_kafka_allows_are_found(found: list[bytes]) -> None:
    legal = are_legal_names(*laid_out(found))
    expected = [re.fullmatch(rb"[A-Za-z0-9._-]+", name) is not None for name in found]

    assert np.array(found, object)[legal].tolist() == [
        name for name, is_legal in zip(found, expected, strict=True) if is_legal
    ]
    assert [is_legal_name(name) for name in found] == expected


@pytest.mark.parametrize("found", [[], [b""], [b"ab", b"", b"c"]])
def test_spans_follow_each_other(found: list[bytes]) -> None:
    views, start, stop = laid_out(found)

    assert views.spans(start, stop).tobytes() == b"".join(found)


LONGEST = "a" * LARGEST_STRING
TOPIC_ID = bytes(range(16))


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (text("orders") + TOPIC_ID + b"\0", "orders"),
        (text("") + TOPIC_ID + b"\0", ""),
        (text(LONGEST) + TOPIC_ID + b"\0", LONGEST),
        (text(LONGEST + "a") + TOPIC_ID + b"\0", None),
        (text(None) + TOPIC_ID + b"\0", None),
        (text("orders") + TOPIC_ID, None),
        (text("orders") + TOPIC_ID[1:] + b"\0", None),
        (text("orders") + TOPIC_ID + tagged(t1=b"a"), None),
        (text("orders") + TOPIC_ID + b"\0\0", None),
        (uvarint(200) + b"orders" + TOPIC_ID + b"\0", None),
    ],
)
def test_the_name_of_a_topic_is_found_in_a_record_of_the_usual_shape(body: bytes, name: str | None) -> None:
    assert found_by(topic_shape, body) == name


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"\2" + text("a") + text("b") + text("c") + b"\0", "c"),
        (b"\2" + text("") + text("") + text("") + b"\0", ""),
        (b"\2" + text("a") + text("b") + text(None) + b"\0", ""),
        (b"\2" + text(LONGEST) + text(LONGEST) + text(LONGEST) + b"\0", LONGEST),
        (b"\2" + text("a") + text("b") + text(LONGEST + "a") + b"\0", None),
        (b"\2" + text("a") + text("b") + b"\x80\0" + b"\0", None),
        (b"\2" + text("a") + text("b") + b"\x81\x80\x80\0" + b"\0", None),
        (b"\2" + text(None) + text("b") + text("c") + b"\0", None),
        (b"\2" + text("a") + text(None) + text("c") + b"\0", None),
        (b"\2" + text("a") + text("b") + text("c") + tagged(t1=b"a"), None),
        (b"\2" + text("a") + text("b") + text("c") + b"\0\0", None),
        (b"\2" + text("a") + text("b") + text("c"), None),
        (b"\2" + text("a") + text("b"), None),
        (b"\2", None),
        (b"", None),
    ],
)
def test_the_value_of_a_configuration_is_found_in_a_record_of_the_usual_shape(body: bytes, value: str | None) -> None:
    assert found_by(config_shape, body) == value


def found_by(find: Callable[[ByteViews, Positions, Positions], NameShape], body: bytes) -> str | None:
    """Returns the text that is found in a record between two others; None if the record is not of the usual shape."""
    begin, end = np.array([0, 100, 100 + len(body)]), np.array([3, 100 + len(body), 120 + len(body)])
    content = bytes(100) + body + bytes(20)

    shape = find(ByteViews(content, 0, len(content)), begin, end)

    assert shape.usual.tolist()[::2] == [False, False]
    return content[shape.start[1] : shape.stop[1]].decode() if shape.usual[1] else None
