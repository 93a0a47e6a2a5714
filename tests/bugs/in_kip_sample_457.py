"""Bugs against the plain statement of a row of the sample of seed 457, in any of the KIPs.

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "rules/checks/recovery_invariant_broken.py",
        "partitions = len({each.partition for each in violations})",
        "partitions = len(violations)",
        "tests/unit/rules/test_recovery_invariant_broken.py::test_a_partition_with_two_violations_is_one_partition",
        rows="B009",
    ),
    Bug(
        "connectors/metadata/run_rows.py",
        "recovers = None if state == UNCHANGED_STATE else state == _RECOVERING",
        "recovers = None if state == UNCHANGED_STATE and not is_set else state == _RECOVERING",
        "tests/unit/connectors/metadata/test_record_to_event.py::test_a_record_gives_its_event",
        rows="B033",
    ),
    Bug(
        "streaming/status/build_voters.py",
        ("leader = None if poll is None else next((row for row in poll.voters if row.key.id == poll.leader_id), None)"),
        ("leader = None if poll is None else max(poll.voters, key=lambda row: row.log_end_offset or 0, default=None)"),
        "tests/kips/test_kip_856_gauges.py::test_an_observer_far_behind_is_not_the_maximum",
        rows="D100",
    ),
    Bug(
        "connectors/metadata/batch_writer.py",
        "    _EPOCH.pack_into(changed, _EPOCH_AT, leader_epoch)\n",
        "",
        "tests/unit/connectors/metadata/test_batches.py::test_a_batch_at_another_position_differs_in_offset_and_epoch_only",
        rows="E048",
    ),
    Bug(
        "rules/analysis/electability.py",
        "CAUGHT_UP_MS = Millis(5_000)",
        "CAUGHT_UP_MS = Millis(100)",
        "tests/kips/test_kip_856_votes.py::test_a_follower_that_is_a_fetch_behind_counts_as_level_with_the_leader",
        rows="K035",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        "{epoch:010d}",
        "{epoch:09d}",
        "tests/unit/connectors/logdir/test_log_dir_files.py::test_snapshot_names_hold_end_offset_and_epoch_and_unfinished_or_deleted_files_are_ignored",
        rows="K037",
    ),
    Bug(
        "connectors/metadata/decoder.py",
        "elif epoch < before and self.epoch_drop is None:",
        "elif epoch < before - 1 and self.epoch_drop is None:",
        "tests/kips/test_invariants_of_the_texts.py::test_an_epoch_that_decreases_within_one_observation_is_found",
        rows="K043",
    ),
)
