"""Bugs against the plain statement of a row of the sample of seed 277, in any of the KIPs.

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "rules/model/quorum.py",
        "return frozenset(row.key for row in self.voters)",
        "return frozenset(row.key for row in (*self.voters, *self.observers))",
        "tests/kips/test_kip_856_voter_changes.py::test_a_pending_change_waits_for_a_majority_of_the_new_set",
        rows="A025",
    ),
    Bug(
        "rules/checks/voter_change_stuck.py",
        "in_sync, needed = in_sync_count(statuses), majority(len(statuses))",
        "in_sync, needed = in_sync_count(statuses), majority(len(statuses) + len(change.removed))",
        "tests/kips/test_kip_856_voter_changes.py::test_a_pending_change_waits_for_a_majority_of_the_new_set",
        rows="A026",
    ),
    Bug(
        "rules/checks/voter_disk_replaced.py",
        "voters_fetching = sum(state is Liveness.FETCHING for state in states)",
        "voters_fetching = 1 + sum(state is Liveness.FETCHING for state in states)",
        "tests/kips/test_kip_856_disk_replaced.py::test_a_poll_alone_shows_a_voter_directory_not_fetching_and_a_fetching_observer_directory",
        rows="A048",
    ),
    Bug(
        "streaming/status/build_status.py",
        "        election,\n        voted_id=",
        "        election,\n        static_voters=(),\n        voted_id=",
        "tests/unit/streaming/status/test_from_log_dir.py::test_quorum_in_a_log_directory",
        rows="A064",
    ),
    Bug(
        "rules/checks/partition_stuck_recovering.py",
        '"clients_refused": any(case.recovery.leader is None for case in cases),',
        '"clients_refused": any(case.recovery.leader is not None for case in cases),',
        "tests/kips/test_kip_704_promises.py::test_a_recovering_partition_without_a_leader_is_offline",
        rows="B011",
    ),
    Bug(
        "connectors/metadata/record_to_event.py",
        'recovering=recovering(values["leader_recovery_state"], absent=UNCHANGED_STATE),',
        'recovering=recovering(values["leader_recovery_state"], absent=UNCHANGED_STATE) or None,',
        "tests/kips/test_kip_704_recovery.py::test_the_state_is_read_beside_fields_of_a_later_kafka",
        rows="B052",
    ),
    Bug(
        "connectors/gather/commit_buffer.py",
        "        if self._uncommitted:\n            self._drop",
        "        if len(self._uncommitted) > 1:\n            self._drop",
        "tests/kips/test_kip_595_fetch.py::test_a_diverging_response_truncates_what_was_read_and_not_committed",
        rows="D072",
    ),
    Bug(
        "streaming/replay/log.py",
        "if record.name == METADATA_VERSION:",
        "if record.name == METADATA_VERSION and self.origin is None:",
        "tests/unit/streaming/replay/test_replay_laws.py::test_a_snapshot_and_the_records_after_it_equal_the_whole_log",
        rows="D122",
    ),
    Bug(
        "connectors/metadata/record_to_event.py",
        'port=value["port"],',
        "port=9093,",
        "tests/kips/test_kip_595_records.py::test_the_voters_are_in_the_fetched_records",
        rows="E003",
    ),
)
