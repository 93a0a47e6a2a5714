"""Bugs against what the notes between the texts of the KIPs say (rows K).

`sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "connectors/logdir/log_dir_files.py",
        "ReplicaKey(id=self.node_id, directory_id=self.directory_id)",
        "ReplicaKey(id=self.node_id)",
        "tests/unit/connectors/logdir/test_log_dir_files.py::test_meta_properties_hold_cluster_node_and_directory_id",
        rows="K001",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        'static_voters=tuple(NodeId(int(one["voterId"]))',
        'static_voters=tuple(NodeId(int(content["votedId"]))',
        "tests/unit/connectors/logdir/test_log_dir_files.py::test_quorum_state_version_0_lists_the_voters_of_a_static_quorum",
        rows="K002",
    ),
    Bug(
        "streaming/replay/log.py",
        "                committed = voter_set(record, origin)\n",
        (
            "                committed = voter_set(record, origin)\n"
            "                if image.committed is not None:\n"
            "                    committed = replace(committed, voters=(*image.committed.voters, *(one for "
            "one in committed.voters if one.key not in image.committed.keys)))\n"
        ),
        "tests/unit/streaming/replay/test_log_replay.py::test_a_change_of_several_voters_is_applied",
        rows="K003",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "voters=recorded_voters(committed))",
        (
            "voters=tuple(one for one in recorded_voters(committed) if quorum.poll and one.id in "
            "{key.id for key in quorum.poll.voter_keys}))"
        ),
        "tests/kips/test_kip_856_gauges.py::test_the_latest_and_the_committed_voter_set_are_distinguished",
        rows="K008",
    ),
    Bug(
        "streaming/replay/image.py",
        "return current[-REMOVALS_MAX:]",
        "return current[-1:]",
        "tests/kips/test_kip_595_records.py::test_three_voters_are_replaced_one_by_one",
        rows="K010",
    ),
    Bug(
        "streaming/replay/image.py",
        "for key, timestamp_ms in _removed(visible, following, committed).items():",
        "for key, timestamp_ms in [*_removed(visible, following, committed).items()][:1]:",
        "tests/unit/streaming/replay/test_log_replay.py::test_a_change_of_several_voters_is_applied",
        rows="K010",
    ),
    Bug(
        "streaming/replay/image.py",
        "if removal.key.id not in committed.ids and observed_at_ms",
        "if removal.key.id in committed.ids or observed_at_ms",
        "tests/unit/streaming/replay/test_log_replay.py::test_a_removal_is_dropped_when_its_id_is_a_voter_again",
        rows="K010",
    ),
    Bug(
        "connectors/metadata/batches.py",
        "if batch.leader_epoch < 0:",
        "if batch.leader_epoch <= 0:",
        "tests/kips/test_invariants_of_the_texts.py::test_epochs_start_at_0_and_are_never_negative",
        rows="K016",
    ),
    Bug(
        "rules/checks/partition_stuck_recovering.py",
        '"clients_refused": any(case.recovery.leader is None for case in cases)',
        '"clients_refused": bool(cases)',
        "tests/kips/test_kip_704_promises.py::test_a_recovering_partition_without_a_leader_is_offline",
        rows="K025",
    ),
    Bug(
        "connectors/metadata/record_to_event.py",
        'valid_nodes("granting voter id", [voter["voter_id"] for voter in values["granting_voters"]])',
        (
            'valid_nodes("granting voter id", [voter["voter_id"] for voter in values["granting_voters"] if '
            'voter.get("voter_directory_id")])'
        ),
        "tests/kips/test_kip_595_records.py::test_no_result_depends_on_directory_ids_in_a_leader_change",
        rows="K026",
    ),
    Bug(
        "rules/rescue/voter_override.py",
        "str(one.endpoints[0]).lower() == address",
        "str(one.endpoints[0]) == address",
        "tests/unit/rules/rescue/test_voter_override.py::test_two_voters_at_one_address_are_refused_as_a_typo",
        rows="K027",
    ),
    Bug(
        "rules/checks/voter_change_stuck.py",
        "thresholds=(hold(60.0), clear(), WINDOW",
        "thresholds=(hold(30.0), clear(), WINDOW",
        "tests/kips/test_durations.py::test_a_pending_voter_change_fires_only_after_its_hold",
        rows="K032",
    ),
    Bug(
        "streaming/replay/log.py",
        "                committed = voter_set(record, origin)\n",
        (
            "                committed = voter_set(record, origin)\n"
            "                if image.committed is not None and len(committed.keys ^ image.committed.keys) "
            "> 1:\n"
            "                    return\n"
        ),
        "tests/kips/test_kip_856_voter_changes.py::test_a_change_of_several_voters_is_replayed_and_fires",
        rows="K033",
    ),
    Bug(
        "streaming/replay/image.py",
        "for key, timestamp_ms in _removed(visible, following, committed).items():",
        "for key, timestamp_ms in [*_removed(visible, following, committed).items()][:1]:",
        "tests/unit/streaming/replay/test_log_replay.py::test_a_change_of_several_voters_is_applied",
        rows="K033",
    ),
    Bug(
        "rules/checks/partition_stuck_recovering.py",
        "thresholds=(hold(60.0), clear(), JOIN",
        "thresholds=(hold(0.0), clear(), JOIN",
        "tests/kips/test_thresholds.py::test_the_three_thresholds_without_a_value_in_the_texts_have_configurable_defaults",
        rows="K038",
    ),
    Bug(
        "streaming/replay/leadership_state.py",
        "if epoch < before and not any(",
        "if epoch < before - 1 and not any(",
        "tests/kips/test_kip_595_observed_elections.py::test_votes_against_the_rules_are_reported_also_after_the_monitor_restarts",
        rows="K043",
    ),
    Bug(
        "connectors/gather/commit_buffer.py",
        ("        if self._uncommitted:\n            self._drop_uncommitted()\n            return AcceptResult()\n"),
        (
            "        if self._uncommitted or log_end.end_offset < self.committed_end:\n"
            "            self._drop_uncommitted()\n"
            "            self.committed_end = min(self.committed_end, log_end.end_offset)\n"
            "            return AcceptResult()\n"
        ),
        "tests/kips/test_kip_595_records.py::test_a_voter_set_that_is_truncated_was_never_committed",
        rows="K046",
    ),
    Bug(
        "streaming/replay/image.py",
        "alive_since_timestamp_ms=known[node].alive_since_timestamp_ms",
        "alive_since_timestamp_ms=one.alive_since_timestamp_ms",
        "tests/unit/streaming/replay/test_snapshot_replay.py::test_a_broker_of_a_snapshot_is_alive_since_before_only_if_it_was_alive_with_the_same_incarnation",
        rows="K048",
    ),
    Bug(
        "streaming/replay/machine.py",
        "            history=self.log.image.history,\n",
        "",
        "tests/unit/streaming/replay/test_unclean_election_history.py::test_a_snapshot_adds_and_removes_no_unclean_elections",
        rows="K048",
    ),
)
