"""The JSON of events is stored in the journal, and a field with a default that has another name would be read as absent
without an error. The recordings in tests/data have the other fields, and the `type` of each event."""

import dataclasses

import pytest

from connectors.observations.observation import EVENT_OF_KIND, SET_BY_REPLAY

STORED = {
    "Poll": "cluster_id endpoint leader_id leader_epoch high_watermark voters observers nodes clock_ahead_ms answer_ms",
    "Probe": "node endpoint resolution addresses connection answer answered_by detail reason certificate settings",
    "LeaderView": "endpoint node this_cluster leader_id leader_epoch log other_voters",
    "FailedObservation": "source endpoint reason detail node damage leader_id",
    "WitnessRow": "version node cluster_id at_ms took_ms every_ms login peers dialled_by not_dialled leader_ahead_ms "
    "directory_id listed_directory_ids free_bytes ends_start may_end_start process_since_ms",
}


@pytest.mark.parametrize("stored", [*EVENT_OF_KIND.values()])
def test_fields_of_stored_events_keep_their_names(stored: type) -> None:
    names = {each.name for each in dataclasses.fields(stored)} - SET_BY_REPLAY
    assert names == {*STORED[stored.__name__].split()}
