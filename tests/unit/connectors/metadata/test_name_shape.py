"""Texts of many records are checked side by side as they would be one by one."""

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connectors.event_block import Positions
from connectors.metadata.byte_views import ByteViews
from connectors.metadata.name_shape import are_ascii, are_legal_names, is_legal_name

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
