"""A frame decodes to the row that was written; any other bytes are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.observations.observation import Observation, ObservationKind
from connectors.relay import row_frame
from connectors.relay.row_frame import BadFrameError

offsets = st.none() | st.integers(-1, 2**63 - 1)
observations = st.builds(
    Observation,
    cluster=st.text(min_size=1, max_size=20).filter(lambda name: name.isprintable()),
    kind=st.sampled_from(ObservationKind),
    observed_at_ms=st.integers(0, 2**62),
    base_offset=offsets,
    last_offset=offsets,
    leader_epoch=st.none() | st.integers(-1, 2**31 - 1),
    high_watermark=offsets,
    payload=st.binary(max_size=200),
    sequence=st.integers(0, 2**63),
)


@given(observations)
def test_a_row_survives_encoding_and_reading(row: Observation) -> None:
    encoded = row_frame.encode(row)
    assert row_frame.decode(encoded) == row


@given(observations, st.data())
def test_any_flipped_bit_is_detected(row: Observation, data: st.DataObject) -> None:
    encoded = bytearray(row_frame.encode(row))
    at = data.draw(st.integers(0, len(encoded) * 8 - 1))
    encoded[at // 8] ^= 1 << (at % 8)
    with pytest.raises(BadFrameError):
        row_frame.decode(bytes(encoded))


@given(observations, st.data())
def test_a_cut_at_any_byte_is_detected(row: Observation, data: st.DataObject) -> None:
    encoded = row_frame.encode(row)
    with pytest.raises(BadFrameError):
        row_frame.decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    with pytest.raises(BadFrameError):
        row_frame.decode(encoded + b"\0")


def test_a_row_without_a_sequence_is_refused() -> None:
    with pytest.raises(ValueError, match="sequence"):
        row_frame.encode(Observation(cluster="a", kind=ObservationKind.PROBE, observed_at_ms=0))


def test_a_cluster_name_too_long_for_a_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="larger than a frame can hold"):
        row_frame.encode(Observation(cluster="a" * 70_000, kind=ObservationKind.PROBE, observed_at_ms=0, sequence=0))
