"""A frame gives back the row that was written, and anything else is refused."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.journal import frame
from connectors.journal.frame import BadFrameError
from connectors.observation import Kind, Observation

offsets = st.none() | st.integers(-1, 2**63 - 1)
observations = st.builds(
    Observation,
    cluster=st.text(min_size=1, max_size=20).filter(lambda name: name.isprintable()),
    kind=st.sampled_from(Kind),
    observed_at_ms=st.integers(0, 2**62),
    base_offset=offsets,
    last_offset=offsets,
    leader_epoch=st.none() | st.integers(-1, 2**31 - 1),
    high_watermark=offsets,
    payload=st.binary(max_size=200),
    sequence=st.integers(0, 2**63),
)


@given(observations)
def test_a_row_reads_back_as_it_was(row: Observation) -> None:
    encoded = frame.encode(row)
    assert frame.read(io.BytesIO(encoded), 0) == (row, len(encoded))


@given(observations, st.data())
def test_no_bit_can_change_unnoticed(row: Observation, data: st.DataObject) -> None:
    encoded = bytearray(frame.encode(row))
    at = data.draw(st.integers(0, len(encoded) * 8 - 1))
    encoded[at // 8] ^= 1 << (at % 8)
    with pytest.raises(BadFrameError):
        frame.read(io.BytesIO(encoded), 0)


@given(observations, st.data())
def test_a_cut_is_noticed_at_every_byte(row: Observation, data: st.DataObject) -> None:
    encoded = frame.encode(row)
    cut = data.draw(st.integers(1, len(encoded) - 1))
    with pytest.raises(BadFrameError, match="cut short"):
        frame.read(io.BytesIO(encoded[:cut]), 0)


def test_zeros_left_by_a_power_cut_are_no_frame() -> None:
    with pytest.raises(BadFrameError, match="impossible length 0 at byte 7"):
        frame.read(io.BytesIO(bytes(64)), 7)


def test_rows_count_up() -> None:
    row = Observation(cluster="a", kind=Kind.PROBE, observed_at_ms=0, sequence=4)
    file = io.BytesIO(frame.encode(row) * 2)
    with pytest.raises(BadFrameError, match="row 4 stands where row 5 belongs"):
        list(frame.scan(file, 0, 4))


def test_a_row_without_a_sequence_is_not_written() -> None:
    with pytest.raises(ValueError, match="sequence"):
        frame.encode(Observation(cluster="a", kind=Kind.PROBE, observed_at_ms=0))


def test_a_name_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="larger than a frame"):
        frame.encode(Observation(cluster="a" * 70_000, kind=Kind.PROBE, observed_at_ms=0, sequence=0))
