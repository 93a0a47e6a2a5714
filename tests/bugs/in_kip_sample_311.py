"""Bugs against the plain statement of a row of the sample of seed 311, in any of the KIPs.

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "streaming/replay/poll_history.py",
        "name, end = str(row.key), row.log_end_offset",
        "name, end = str(row.key.id), row.log_end_offset",
        "tests/unit/streaming/replay/test_log_regression.py::test_the_log_of_another_directory_of_a_voter_did_not_go_back",
        rows="A017",
    ),
    Bug(
        "rules/analysis/restart_election.py",
        "needed=candidate.voters.majority,",
        "needed=min(one.voters.majority for one in by_id.values()),",
        "tests/kips/test_kip_856_votes.py::test_an_addition_that_only_some_have_may_leave_nobody_electable",
        rows="A037",
    ),
    Bug(
        "rules/checks/voter_disk_replaced.py",
        "known.first_seen_at_ms < own.first_seen_at_ms",
        "known.first_seen_at_ms <= own.first_seen_at_ms",
        "tests/unit/rules/test_voter_disk_replaced.py::test_replacement_that_stops_fetching_is_unknown",
        rows="A048",
    ),
    Bug(
        "rules/analysis/replica_lag.py",
        "return age_ms(leader.last_fetch_ms, row.last_fetch_ms, leader, row)",
        "return age_ms(leader.last_fetch_ms, row.last_caught_up_ms, leader, row)",
        "tests/kips/test_whole_outputs.py::test_fields_of_status_and_replication_and_partitions",
        rows="A058",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        "directory_id=None if directory is None else DirectoryId(directory),",
        'directory_id=DirectoryId(directory or ""),',
        "tests/kips/test_kip_856_names.py::test_meta_properties_identify_a_metadata_log_dir",
        rows="A065",
    ),
    Bug(
        "streaming/replay/leadership_state.py",
        "EPOCHS = 64",
        "EPOCHS = 1",
        "tests/kips/test_invariants_of_the_texts.py::test_two_controllers_that_answer_as_leaders_of_one_epoch_are_critical",
        rows="A087",
    ),
    Bug(
        "connectors/metadata/record_framing.py",
        'version = int.from_bytes(chunk[start : start + 2], "big", signed=True)',
        "version = 0",
        "tests/kips/test_kip_856_names.py::test_a_leader_change_has_leader_voters_and_granting_voters_with_directory_ids_from_version_1",
        rows="A104",
    ),
    Bug(
        "connectors/observations/partition_run.py",
        "recovering=bool(values.recovering),",
        "recovering=bool(values.recovering) and values.leader is not None,",
        "tests/unit/connectors/metadata/test_record_to_event.py::test_a_record_gives_its_event",
        rows="B016",
    ),
    Bug(
        "connectors/metadata/batches.py",
        "_CONTROL_BIT: Final = 0x20",
        "_CONTROL_BIT: Final = 0x30",
        "tests/kips/test_kip_595_records.py::test_only_the_control_bit_marks_a_control_record",
        rows="D019",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "return FetchSnapshotRequest(replica_id=_ANONYMOUS,",
        "return FetchSnapshotRequest(replica_id=0,",
        "tests/unit/connectors/kafka/test_messages.py::test_whole_fetch_of_a_snapshot_in_every_version",
        rows="D068",
    ),
    Bug(
        "streaming/status/cluster_status.py",
        '(*_HEAD, "leader_id", "leader_epoch")',
        '(*_HEAD, "leader_id")',
        "tests/kips/test_whole_outputs.py::test_fields_of_status_and_replication_and_partitions",
        rows="D097",
    ),
    Bug(
        "streaming/metrics/quorum_metrics.py",
        "value(lambda status: status.leader_epoch)",
        "value(lambda status: status.leader_epoch if status.leader_id is not None else None)",
        "tests/kips/test_whole_outputs.py::test_metrics_of_a_cluster_without_a_leader_and_of_a_static_one",
        rows="D103",
    ),
    Bug(
        "streaming/replay/machine.py",
        "elif run.first_offset <= log.position:",
        "elif run.first_offset < log.position:",
        "tests/unit/streaming/replay/test_run_replay.py::test_a_run_that_was_applied_is_delivered_again_without_effect",
        rows="D118",
    ),
    Bug(
        "streaming/metrics/rates.py",
        "max(waits) / 1000)",
        "waits[-1] / 1000)",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_commit_waits_for_the_voter_that_completes_the_majority",
        rows="D125",
    ),
    Bug(
        "streaming/status/build_status.py",
        "high_watermark=quorum.high_watermark,",
        "high_watermark=poll.high_watermark if poll else None,",
        "tests/kips/test_whole_outputs.py::test_fields_of_status_and_replication_and_partitions",
        rows="D143",
    ),
    Bug(
        "streaming/status/status_tables.py",
        "if status.source is not StatusSource.LIVE and status.initial_controllers:",
        "if status.source is StatusSource.LOG_DIR and status.initial_controllers:",
        "tests/kips/test_whole_outputs.py::test_tables_of_a_recorded_state",
        rows="E076",
    ),
    Bug(
        "streaming/replay/leadership_state.py",
        "and event.voter_ids and len(votes) < majority(voters):",
        (
            "and event.voter_ids and (len(votes) < majority(voters) or "
            "{*event.granting_voter_ids} - {*event.voter_ids}):"
        ),
        "tests/unit/streaming/replay/test_election_facts.py::test_a_vote_of_a_replica_outside_the_voters_beside_a_majority_is_legal",
        rows="K007",
    ),
    Bug(
        "rules/model/identifiers.py",
        'return f"[{host}]:{port}" if ":" in host else',
        'return f"[{host}]:{port}" if "::" in host else',
        "tests/kips/test_whole_outputs.py::test_fields_of_status_and_replication_and_partitions",
        rows="K014",
    ),
)
