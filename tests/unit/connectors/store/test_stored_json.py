"""JSON that a disk damaged is a ValueError, whatever it holds."""

import pytest

from connectors.store.stored_json import parse_json


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, '{"a":' * 100_000])
def test_damaged_content_is_a_value_error(content: bytes | str) -> None:
    with pytest.raises(ValueError):
        parse_json(content)
