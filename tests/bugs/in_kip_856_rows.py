"""Bugs against what KIP-856 says (rows A): voters, directory ids and changes of the voter set.

`sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "rules/checks/voter_disk_replaced.py",
        "            *remove,\n            *add_controller(quorum, new.id),\n",
        "            *add_controller(quorum, new.id),\n            *remove,\n",
        "tests/unit/rules/test_voter_disk_replaced.py::test_remedy_removes_the_old_voter_and_then_adds_the_new_one",
        rows="A007",
    ),
    Bug(
        "rules/analysis/endpoint_status.py",
        "    alive = liveness(quorum, poll, voter.key, thresholds)\n    if not voter.endpoints:",
        (
            "    alive = max((liveness(quorum, poll, row.key, thresholds) for row in "
            "poll.rows_by_id.get(voter.key.id, ())), key=lambda one: one is Liveness.FETCHING, "
            "default=Liveness.UNKNOWN) if poll else Liveness.UNKNOWN\n"
            "    if not voter.endpoints:"
        ),
        "tests/kips/test_kip_856_votes.py::test_a_voter_on_a_new_disk_cannot_give_the_vote_of_the_old_one",
        rows="A008 A088",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "row.key in quorum.committed.keys,",
        "row.key.id in quorum.committed.ids,",
        "tests/kips/test_kip_856_disk_replaced.py::test_a_poll_alone_shows_a_voter_directory_not_fetching_and_a_fetching_observer_directory",
        rows="A012",
    ),
    Bug(
        "rules/analysis/replica_lag.py",
        "return key.id == other.id and (key.directory_id == other.directory_id or not known)",
        "return key.id == other.id",
        "tests/kips/test_kip_856_disk_replaced.py::test_a_poll_alone_shows_a_voter_directory_not_fetching_and_a_fetching_observer_directory",
        rows="A012",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        'directory = properties.get("directory.id")',
        'directory = properties.get("metadata.directory.id")',
        "tests/unit/connectors/logdir/test_log_dir_files.py::test_meta_properties_hold_cluster_node_and_directory_id",
        rows="A013 A065",
    ),
    Bug(
        "rules/checks/node_records_conflict.py",
        "for row in (*poll.voters, *poll.observers):",
        "for row in poll.voters:",
        "tests/unit/rules/test_node_records_conflict.py::test_one_directory_id_under_two_node_ids_is_reported",
        rows="A014",
    ),
    Bug(
        "connectors/metadata/record_to_event.py",
        'key=ReplicaKey(id=node, directory_id=voter["voter_directory_id"])',
        "key=ReplicaKey(id=node)",
        "tests/kips/test_kip_856_names.py::test_directory_id_voter_directory_id_and_voted_directory_id_name_one_replica",
        rows="A017",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "directory_id=_directory(row.replica_directory_id)",
        "directory_id=None",
        "tests/unit/connectors/kafka/test_messages.py::test_minus_one_and_zero_uuid_of_a_poll_are_none",
        rows="A017 C022",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        'content.get("votedDirectoryId", _NO_DIRECTORY)',
        'content.get("votedUuid", _NO_DIRECTORY)',
        "tests/kips/test_kip_856_names.py::test_directory_id_voter_directory_id_and_voted_directory_id_name_one_replica",
        rows="A018",
    ),
    Bug(
        "rules/remedies/remedy_commands.py",
        "(known and poll.voter_keys != committed.keys)",
        "(known and poll.voter_keys > committed.keys)",
        "tests/kips/test_kip_856_voter_changes.py::test_while_a_change_is_pending_every_remedy_says_to_start_no_other",
        rows="A021",
    ),
    Bug(
        "rules/analysis/voter_status.py",
        "keys = sorted((row.key for row in poll.voters), ",
        "keys = sorted(quorum.committed.keys if quorum.committed else (row.key for row in poll.voters), ",
        "tests/kips/test_kip_856_voter_changes.py::test_the_majority_is_of_the_leaders_newest_set",
        rows="A022",
    ),
    Bug(
        "rules/checks/observer_could_be_voter.py",
        "quorum.now_ms - removal.removed_at_ms < thresholds.ms(REMOVED_FOR.name)",
        "quorum.now_ms - removal.removed_at_ms > thresholds.ms(REMOVED_FOR.name)",
        "tests/unit/rules/test_observer_could_be_voter.py::test_brokers_removed_voters_and_replaced_disks_are_not_reported",
        rows="A027",
    ),
    Bug(
        "streaming/status/build_status.py",
        "return QuorumMode.DYNAMIC if quorum.kraft_version else QuorumMode.STATIC",
        "return QuorumMode.DYNAMIC",
        "tests/kips/test_kip_853_voter_endpoints.py::test_a_static_quorum_has_the_voters_of_the_polls_and_a_dynamic_one_those_of_its_record",
        rows="A030",
    ),
    Bug(
        "streaming/status/build_voters.py",
        (
            "keys = quorum.committed.keys if quorum.committed else {row.key for row in poll.voters} if poll "
            "else frozenset()"
        ),
        "keys = quorum.committed.keys if quorum.committed else frozenset()",
        "tests/kips/test_kip_853_voter_endpoints.py::test_a_static_quorum_has_the_voters_of_the_polls_and_a_dynamic_one_those_of_its_record",
        rows="A030 E004",
    ),
    Bug(
        "rules/rescue/surviving_disks.py",
        "voters = ordered[0].voters",
        "voters = ordered[-1].voters",
        "tests/kips/test_kip_856_votes.py::test_an_addition_on_some_disks_needs_the_vote_of_a_voter_without_the_record",
        rows="A037",
    ),
    Bug(
        "rules/analysis/electability.py",
        "voter.position > own:",
        "voter.position < own:",
        "tests/unit/rules/analysis/test_electability.py::test_epochs_are_compared_before_offsets",
        rows="A039",
    ),
    Bug(
        "streaming/replay/leadership_state.py",
        "if known is None or high_watermark > known:\n            self.high_watermark",
        "if known is None or high_watermark != known:\n            self.high_watermark",
        "tests/kips/test_invariants_of_the_texts.py::test_the_reported_high_watermark_never_decreases_and_a_decrease_fires",
        rows="A041",
    ),
    Bug(
        "streaming/replay/machine.py",
        "            history=self.log.image.history,\n",
        "            history=self.log.image.history,\n            committed=self.log.image.committed,\n",
        "tests/unit/streaming/replay/test_snapshot_replay.py::test_state_is_replaced_only_at_the_footer",
        rows="A043 A044",
    ),
    Bug(
        "connectors/gather/commit_buffer.py",
        "self._uncommitted[0].last_offset < high_watermark",
        "self._uncommitted[0].last_offset <= high_watermark",
        "tests/kips/test_kip_595_records.py::test_a_voter_set_that_is_truncated_was_never_committed",
        rows="A046",
    ),
    Bug(
        "rules/checks/voter_disk_replaced.py",
        (
            "if same_replica(voter.key, row.key) or liveness(quorum, poll, voter.key, thresholds) is not "
            "Liveness.NOT_FETCHING:"
        ),
        "if same_replica(voter.key, row.key):",
        "tests/kips/test_kip_856_disk_replaced.py::test_a_poll_alone_shows_a_voter_directory_not_fetching_and_a_fetching_observer_directory",
        rows="A048",
    ),
    Bug(
        "streaming/replay/registrations.py",
        "REMOVAL_REMEMBERED_MS = Millis(86_400_000)",
        "REMOVAL_REMEMBERED_MS = Millis(86_400)",
        "tests/kips/test_kip_856_disk_replaced.py::test_remove_before_add_as_in_kafka_is_replayed",
        rows="A052",
    ),
    Bug(
        "rules/analysis/voter_changes.py",
        "default=86_400.0,",
        "default=60.0,",
        "tests/kips/test_kip_856_disk_replaced.py::test_remove_before_add_as_in_kafka_is_replayed",
        rows="A052",
    ),
    Bug(
        "connectors/metadata/record_to_event.py",
        '[voter["voter_id"] for voter in values["granting_voters"]]',
        '[voter["voter_id"] for voter in values["voters"]]',
        "tests/unit/connectors/metadata/test_record_to_event.py::test_a_leader_change_of_version_1_is_read_with_its_own_schema",
        rows="A054",
    ),
    Bug(
        "connectors/metadata/record_to_event.py",
        "zip(ids, listed, strict=True)",
        "zip(ids[:1], listed[:1], strict=True)",
        "tests/unit/connectors/metadata/test_record_to_event.py::test_a_voters_record_gives_the_whole_set_and_a_zero_directory_id_is_none",
        rows="A056",
    ),
    Bug(
        "rules/rescue/surviving_disks.py",
        "voters = ordered[0].voters",
        "voters = min(ordered, key=lambda disk: disk.voters.offset).voters",
        "tests/kips/test_kip_856_votes.py::test_a_voter_with_its_own_uncommitted_addition_can_be_elected",
        rows="A058",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        'leader, voted = int(content["leaderId"]), int(content["votedId"])',
        'voted, leader = int(content["leaderId"]), int(content["votedId"])',
        "tests/kips/test_kip_856_names.py::test_the_leader_and_the_vote_of_a_quorum_state_are_not_confused",
        rows="A062 K002",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        'content.get("currentVoters") or ()',
        'content["currentVoters"]',
        "tests/unit/connectors/logdir/test_log_dir_files.py::test_quorum_state_version_1_holds_the_last_election_and_the_directory_voted_for",
        rows="A064",
    ),
    Bug(
        "rules/remedies/remedy_commands.py",
        "# On controller {node}'s host, with its own configuration file as",
        "# On any controller's host, with its configuration file as",
        "tests/kips/test_kip_856_gauges.py::test_commands_are_those_of_released_kafka",
        rows="A066 A109",
    ),
    Bug(
        "rules/checks/voter_disk_replaced.py",
        "            *(wait if lagging else ()),\n",
        "",
        "tests/kips/test_kip_856_disk_replaced.py::test_a_new_disk_that_lags_is_not_added_before_it_has_caught_up",
        rows="A072",
    ),
    Bug(
        "rules/remedies/remedy_commands.py",
        'f"--controller-id {key.id} --controller',
        'f"--controller-id {quorum.leader_id} --controller',
        "tests/kips/test_kip_856_gauges.py::test_a_removal_command_has_id_and_directory",
        rows="A074",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "        high_watermark=-1 if high_watermark is None else high_watermark,\n",
        (
            "        high_watermark=-1 if high_watermark is None else high_watermark,\n"
            "        replica_directory_id=UUID(int=9),\n"
        ),
        "tests/kips/test_kip_856_names.py::test_a_fetch_has_a_directory_id_from_version_17_on_and_the_monitors_has_none",
        rows="A079",
    ),
    Bug(
        "rules/analysis/replica_lag.py",
        "return Millis(max(0, leader.last_fetch_ms - row.last_fetch_ms))",
        "return Millis(max(0, poll.observed_at_ms - row.last_fetch_ms))",
        "tests/kips/test_kip_595_observed_commits.py::test_voters_that_have_not_fetched_from_a_new_leader_count_as_fetching_for_the_fetch_age_only",
        rows="A095",
    ),
    Bug(
        "rules/analysis/replica_lag.py",
        "return Millis(max(0, leader.last_caught_up_ms - row.last_caught_up_ms))",
        "return Millis(max(0, poll.observed_at_ms - row.last_caught_up_ms))",
        "tests/kips/test_kip_595_metrics.py::test_leader_epoch_high_watermark_and_lags_come_from_polls_alone",
        rows="A095",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "row.key.directory_id is not None and row.key.id in quorum.controllers and row.key not in voting",
        "row.key.directory_id is not None and row.key not in voting",
        "tests/kips/test_kip_856_gauges.py::test_an_observer_without_a_directory_id_cannot_be_a_voter",
        rows="A096",
    ),
    Bug(
        "connectors/kafka/messages.py",
        'last_fetch_ms=millis(row.last_fetch_timestamp, "DescribeQuorum: last_fetch_timestamp")',
        "last_fetch_ms=row.last_fetch_timestamp",
        "tests/unit/connectors/kafka/test_client.py::test_unsupported_request_is_reported_and_other_requests_use_the_same_connection",
        rows="A097",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "        directory_id=row.key.directory_id,\n        log_end_offset",
        "        directory_id=voter.key.directory_id if voter else None,\n        log_end_offset",
        "tests/unit/streaming/status/test_status_fields.py::test_replication_rows_of_the_sample_in_kip_595",
        rows="A098",
    ),
    Bug(
        "streaming/metrics/kip_metrics.py",
        "value(lambda status: status.voters),",
        "value(lambda status: len(status.current_voters)),",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_uncommitted_voter_change_is_pending",
        rows="A099",
    ),
    Bug(
        "streaming/metrics/kip_metrics.py",
        "bool(pending.added or pending.removed or pending.moved)",
        "bool(pending.added or pending.removed)",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_uncommitted_voter_change_is_pending",
        rows="A103",
    ),
    Bug(
        "streaming/metrics/kip_metrics.py",
        "_pending(lambda pending: bool(pending.added)),",
        "_pending(lambda pending: bool(pending.removed)),",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_uncommitted_voter_change_is_pending",
        rows="A103",
    ),
    Bug(
        "streaming/metrics/kip_metrics.py",
        "        _pending(lambda pending: bool(pending.removed)),",
        "        _pending(lambda pending: bool(pending.added or pending.removed)),",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_uncommitted_voter_change_is_pending",
        rows="A103",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "row.key.id in quorum.controllers and row.key not in voting",
        "row.key.id in quorum.controllers",
        "tests/kips/test_kip_856_gauges.py::test_voters_are_written_with_id_disk_and_endpoints",
        rows="A106",
    ),
    Bug(
        "rules/remedies/remedy_commands.py",
        "{_connection(quorum, excluding=key.id)} remove-controller",
        "{_connection(quorum)} remove-controller",
        "tests/kips/test_kip_856_gauges.py::test_a_removal_command_has_id_and_directory",
        rows="A110",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "return VoterEndpoints(id=key.id, directory_id=key.directory_id,",
        "return VoterEndpoints(id=key.id, directory_id=key.directory_id or str(key.id),",
        "tests/kips/test_kip_856_gauges.py::test_voters_without_a_known_directory_are_reported_as_such",
        rows="A111",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "PartitionData(partition_index=0)\n    return Desc",
        "PartitionData(partition_index=1)\n    return Desc",
        "tests/unit/connectors/kafka/test_messages.py::test_poll_requests_the_metadata_partition",
        rows="A115 D084",
    ),
)
