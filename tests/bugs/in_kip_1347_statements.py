"""Bugs against the plain statement of a row of KIP-1347 and of the notes (rows E and K).

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "rules/checks/stale_voter_endpoint.py",
        "hold(30.0), clear(), FETCH_AGE",
        "hold(3600.0), clear(), FETCH_AGE",
        "tests/kips/test_thresholds.py::test_the_three_thresholds_without_a_value_in_the_texts_have_configurable_defaults",
        rows="E005",
    ),
    Bug(
        "rules/checks/no_leader.py",
        "    if len(statuses) - down < needed:\n",
        "    if len(statuses) - down <= needed:\n",
        "tests/kips/test_invariants_of_the_texts.py::test_a_hanging_majority_raises_no_endpoint_alert",
        rows="E010 E093",
    ),
    Bug(
        "rules/evaluate.py",
        "return log_read_problem(quorum) is None and quorum.committed is None and not quorum.kraft_version",
        "return log_read_problem(quorum) is None and quorum.committed is None",
        "tests/kips/test_kip_1347_stale_endpoints.py::test_a_static_quorum_has_no_recorded_endpoints",
        rows="E012",
    ),
    Bug(
        "rules/evaluate.py",
        "return log_read_problem(quorum) is None and quorum.committed is None and not quorum.kraft_version",
        "return quorum.last_offset is not None and quorum.committed is None and not quorum.kraft_version",
        "tests/kips/test_kip_1347_stale_endpoints.py::test_a_static_quorum_has_no_recorded_endpoints",
        rows="E012",
    ),
    Bug(
        "streaming/status/build_status.py",
        "mode=None if kraft is None else QuorumMode.DYNAMIC if kraft else QuorumMode.STATIC",
        "mode=QuorumMode.DYNAMIC if kraft else QuorumMode.STATIC",
        "tests/kips/test_kip_1347_stale_endpoints.py::test_a_static_quorum_has_no_recorded_endpoints",
        rows="E012",
    ),
    Bug(
        "rules/rescue/voter_override.py",
        "        if not 0 < port <= _PORT_MAX:",
        "        if not 0 < port < _PORT_MAX:",
        "tests/unit/rules/rescue/test_voter_override.py::test_two_controllers_may_share_a_host_and_ipv6_is_in_brackets",
        rows="E019",
    ),
    Bug(
        "streaming/rescue/rescue_plan.py",
        '    yield f"Provided VoterSet (from --initial-controllers): {voter_set_text(provided)}"\n',
        '    yield f"Provided VoterSet (from --initial-controllers): {voter_set_text(provided[:2])}"\n',
        "tests/kips/test_kip_1347_rescue.py::test_the_dry_run_prints_every_line_of_the_override_and_writes_nothing",
        rows="E021",
    ),
    Bug(
        "rules/rescue/voter_override.py",
        ('for voter in sorted(voters, key=lambda voter: voter.key.id)\n    )\n    return f"VoterSet'),
        ('for voter in voters\n    )\n    return f"VoterSet'),
        "tests/unit/rules/rescue/test_voter_override.py::test_voter_set_is_printed_as_in_the_kip",
        rows="E022",
    ),
    Bug(
        "rules/rescue/voter_override.py",
        "{', '.join(f'{one.listener}://{one}' for one in voter.endpoints)}",
        "{', '.join(f'{one.listener}://{one}' for one in voter.endpoints[:1])}",
        "tests/unit/rules/rescue/test_voter_override.py::test_voter_set_is_printed_as_in_the_kip",
        rows="E022",
    ),
    Bug(
        "rules/rescue/voter_override.py",
        '    nodes = ", ".join(\n        f"VoterNode',
        '    nodes = ",".join(\n        f"VoterNode',
        "tests/unit/rules/rescue/test_voter_override.py::test_voter_set_is_printed_as_in_the_kip",
        rows="E022",
    ),
    Bug(
        "rules/rescue/voter_override.py",
        "        if [(one.host, one.port) for one in recorded] != [(new.host, new.port)]:",
        "        if [one.host for one in recorded] != [new.host]:",
        "tests/unit/rules/rescue/test_voter_override.py::test_difference_is_printed_as_in_the_kip",
        rows="E023",
    ),
    Bug(
        "rules/rescue/voter_override.py",
        "has_voter_id_changes=before.keys() != after.keys()",
        "has_voter_id_changes=len(before) != len(after)",
        "tests/unit/rules/rescue/test_voter_override.py::test_difference_is_printed_as_in_the_kip",
        rows="E023",
    ),
    Bug(
        "connectors/logdir/log_dir_reader.py",
        "    below = sum(later.base_offset <= start for later in segments[1:])",
        "    below = 0 if start == 0 else len(segments) - 1",
        "tests/unit/connectors/logdir/test_log_dir_reader.py::test_reading_begins_with_the_newest_snapshot_and_continues_with_the_log_after_it",
        rows="E043",
    ),
    Bug(
        "streaming/replay/image.py",
        "    return {**others, event.name: event.level} if event.level else others",
        "    return known and {**known} or {event.name: event.level}",
        "tests/kips/test_kip_1347_rescue.py::test_snapshot_and_later_records_equal_the_whole_log",
        rows="E044",
    ),
    Bug(
        "connectors/logdir/log_dir_reader.py",
        "in (*files.snapshots, *files.segments) for",
        "in (*files.snapshots[-1:], *files.segments) for",
        "tests/kips/test_kip_1347_rescue.py::test_snapshot_and_later_records_equal_the_whole_log",
        rows="E044",
    ),
    Bug(
        "connectors/logdir/log_dir_reader.py",
        "    return tuple(sorted(found, key=lambda one: (one.voters.offset, one.in_snapshot)))",
        "    return tuple(found)",
        "tests/kips/test_kip_1347_rescue.py::test_snapshot_and_later_records_equal_the_whole_log",
        rows="E044",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "            case TopicRemoved():\n                self.remove(record.topic_id)",
        "            case TopicRemoved():\n                pass",
        "tests/kips/test_kip_704_recovery.py::test_a_recreated_topic_has_no_recovery",
        rows="E044",
    ),
    Bug(
        "streaming/replay/log.py",
        "            self.transaction.held.append(record)\n",
        "            self.transaction.held.insert(0, record)\n",
        "tests/unit/streaming/replay/test_log_replay.py::test_a_transaction_is_applied_at_its_end_and_dropped_at_its_abort",
        rows="E045",
    ),
    Bug(
        "streaming/replay/log.py",
        (
            "            case LeaderChanged() | KRaftVersionSet() | VotersReplaced():\n"
            "                self._apply_control"
        ),
        (
            "            case LeaderChanged() if self.transaction is not None:\n"
            "                pass\n"
            "            case LeaderChanged() | KRaftVersionSet() | VotersReplaced():\n"
            "                self._apply_control"
        ),
        "tests/unit/streaming/replay/test_log_replay.py::test_a_transaction_is_applied_at_its_end_and_dropped_at_its_abort",
        rows="E046",
    ),
    Bug(
        "connectors/logdir/complete_log.py",
        (
            "        if self.began_at is None:\n"
            "            yield batch\n"
            "        else:\n"
            "            self._held.append(batch)"
        ),
        "        self._held.append(batch)",
        "tests/unit/connectors/logdir/test_complete_log.py::test_transactions_are_resolved",
        rows="E046",
    ),
    Bug(
        "connectors/logdir/complete_log.py",
        "if type_ in _READ and record.value is not None:",
        "if type_ in _READ and record.value is not None and self._transactions.began_at is None:",
        "tests/unit/connectors/logdir/test_complete_log.py::test_transactions_are_resolved",
        rows="E046",
    ),
    Bug(
        "streaming/rescue/plan_output.py",
        "yield f\"mv {quote(str(disk.disk.folder))} {quote(f'{disk.disk.folder.parent}.metadata-before-rescue')}\"",
        'yield f"rm -r {quote(str(disk.disk.folder))}"',
        "tests/kips/test_kip_1347_brokers_and_views.py::test_broker_with_records_that_no_majority_has_gets_a_new_copy_of_the_log",
        rows="E070",
    ),
    Bug(
        "rules/checks/stale_voter_endpoint.py",
        '        "probed_at_ms": probe.observed_at_ms if probe else None,',
        '        "probed_at_ms": quorum.now_ms if probe else None,',
        "tests/kips/test_kip_1347_stale_endpoints.py::test_the_alert_names_voter_listener_recorded_and_registered_endpoint_and_probe",
        rows="E071",
    ),
    Bug(
        "rules/checks/stale_voter_endpoint.py",
        "election = electability(voter_standings(quorum, statuses))\n    return _Voter",
        (
            "election = electability(voter_standings(quorum, [one for one in statuses if one.liveness is "
            "not Liveness.NOT_FETCHING]))\n"
            "    return _Voter"
        ),
        "tests/kips/test_kip_1347_stale_endpoints.py::test_counting_changed_voters_is_not_enough",
        rows="E072 K022",
    ),
    Bug(
        "rules/checks/stale_voter_endpoint.py",
        "    if leader is not None and leader.voter.key.id != node:",
        "    if leader is not None and leader.voter.key.id == node:",
        "tests/kips/test_kip_1347_stale_endpoints.py::test_one_moved_voter_of_three_is_a_warning_until_the_voters_record_has_its_endpoint",
        rows="E074",
    ),
    Bug(
        "streaming/rescue/rescue_plan.py",
        (
            '            yield "No changes detected (VoterSets are equivalent). Override operation '
            'skipped, already up to date."\n'
        ),
        '            yield "Validation: PASSED (only endpoints changed, safe operation)"\n',
        "tests/kips/test_kip_1347_rescue.py::test_the_dry_run_prints_every_line_of_the_override_and_writes_nothing",
        rows="E075",
    ),
    Bug(
        "streaming/rescue/rescue_plan.py",
        '            yield "Error: --override-voters cannot be used for changing node IDs or directory IDs."\n',
        '            yield "Validation: PASSED (only endpoints changed, safe operation)"\n',
        "tests/kips/test_kip_1347_rescue.py::test_the_dry_run_prints_every_line_of_the_override_and_writes_nothing",
        rows="E075",
    ),
    Bug(
        "rules/rescue/voter_override.py",
        "        if not voter.endpoints or voter.key.directory_id is None:\n            return None",
        "        if not voter.endpoints or voter.key.directory_id is None:\n            continue",
        "tests/unit/rules/rescue/test_voter_override.py::test_the_list_has_the_endpoint_that_voters_dial_of_several",
        rows="E076",
    ),
    Bug(
        "streaming/status/build_status.py",
        "initial_controllers=initial_controllers(quorum.committed.voters) if quorum.committed else None,",
        (
            "initial_controllers=initial_controllers(quorum.committed.voters) if quorum.committed and "
            "quorum.leader_id is not None else None,"
        ),
        "tests/kips/test_kip_1347_rescue.py::test_the_list_of_the_recorded_voters_is_reported_also_when_the_quorum_is_down",
        rows="E076",
    ),
    Bug(
        "streaming/rescue/rescue_plan.py",
        "    if len(views) > 1:\n        text",
        "    if len(views) == 2:\n        text",
        "tests/kips/test_kip_1347_brokers_and_views.py::test_disks_with_three_different_endpoints_of_a_voter_are_reported",
        rows="E079",
    ),
    Bug(
        "streaming/status/status_tables.py",
        '    yield "Voter sets", f"{len(sets)} on this disk',
        '    yield "Voter sets", f"{len(sets[-_VOTER_SETS_SHOWN:])} on this disk',
        "tests/unit/streaming/status/test_from_log_dir.py::test_all_voter_sets_of_a_log_directory_are_counted",
        rows="E080",
    ),
    Bug(
        "rules/analysis/electability.py",
        "majority=majority(len(voters)),\n        candidates",
        "majority=majority(len(candidates)),\n        candidates",
        "tests/kips/test_kip_1347_stale_endpoints.py::test_counting_changed_voters_is_not_enough",
        rows="E092",
    ),
    Bug(
        "rules/checks/stale_voter_endpoint.py",
        '    inhibited_by=("no-leader",),',
        '    inhibited_by=("no-leader", "voter-log-regressed"),',
        "tests/kips/test_kip_1347_rescue.py::test_volumes_restored_from_an_old_copy_under_other_names_fire_both_alerts",
        rows="E094",
    ),
    Bug(
        "rules/analysis/restart_election.py",
        "if one.alive and one.key in one.voters.keys)",
        "if one.alive and all(one.key in each.voters.keys for each in ordered))",
        "tests/kips/test_kip_856_votes.py::test_a_voter_grants_its_vote_to_a_candidate_that_its_own_log_does_not_list",
        rows="K007",
    ),
    Bug(
        "rules/checks/voter_disk_replaced.py",
        "    remove = (remove_controller(quorum, old),) if replacement.removed_at_ms is None else ()",
        "    remove = (remove_controller(quorum, old),)",
        "tests/kips/test_kip_856_disk_replaced.py::test_remove_before_add_as_in_kafka_is_replayed",
        rows="K011",
    ),
    Bug(
        "streaming/status/build_voters.py",
        '    return tuple(f"{one.listener}://{one}" for one in endpoints)',
        '    return tuple(f"{one.listener}://{one}" for one in endpoints)[:1]',
        "tests/kips/test_kip_856_gauges.py::test_voters_are_written_with_id_disk_and_endpoints",
        rows="K014",
    ),
    Bug(
        "streaming/status/build_voters.py",
        '    return tuple(f"{one.listener}://{one}" for one in endpoints)',
        '    return tuple(f"{one.listener}://{one.host}:{one.port}" for one in endpoints)',
        "tests/kips/test_kip_856_gauges.py::test_voters_are_written_with_id_disk_and_endpoints",
        rows="K014",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "        lag_time_ms=lag_ms(poll, row),\n        liveness=liveness(quorum, poll, row.key, state.",
        "        lag_time_ms=lag_ms(poll, row) or None,\n        liveness=liveness(quorum, poll, row.key, state.",
        "tests/unit/streaming/status/test_status_fields.py::test_replication_rows_of_the_sample_in_kip_595",
        rows="K018",
    ),
    Bug(
        "rules/checks/observer_could_be_voter.py",
        '    name="ready_lag",\n    default=2.0',
        '    name="ready_lag",\n    default=2.5',
        "tests/kips/test_kip_595_metrics.py::test_an_observer_is_ready_if_its_lag_stays_below_the_fetch_timeout",
        rows="K035",
    ),
    Bug(
        "rules/model/quorum.py",
        "OBSERVER_SESSION_MS = 300_000",
        "OBSERVER_SESSION_MS = 30_000",
        "tests/kips/test_kip_595_metrics.py::test_an_observer_that_is_no_longer_listed_is_unknown_before_it_is_resolved",
        rows="K036",
    ),
    Bug(
        "rules/checks/high_watermark_stalled.py",
        '    name="still",\n    default=10.0',
        '    name="still",\n    default=0.4',
        "tests/kips/test_thresholds.py::test_holds_are_longer_than_kafkas_own_timers",
        rows="K036",
    ),
    Bug(
        "streaming/replay/machine.py",
        "            if at.leader_epoch <= log.epoch:\n                return",
        "            if at.leader_epoch >= log.epoch:\n                return",
        "tests/kips/test_kip_595_records.py::test_a_re_read_record_is_found_by_offset_and_epoch_and_changes_nothing",
        rows="K043",
    ),
    Bug(
        "streaming/replay/leadership_state.py",
        "        if before is not None and high_watermark < before:",
        "        if before is not None and high_watermark < before - 1:",
        "tests/kips/test_invariants_of_the_texts.py::test_the_reported_high_watermark_never_decreases_and_a_decrease_fires",
        rows="K044",
    ),
    Bug(
        "rules/checks/voter_change_stuck.py",
        "    added = _missing(poll.voter_keys, committed.keys)\n",
        "    added = _missing(poll.voter_keys, committed.keys)[:1]\n",
        "tests/kips/test_kip_595_observed_commits.py::test_two_pending_changes_at_once_are_one_alert_that_names_both",
        rows="K045",
    ),
    Bug(
        "streaming/replay/machine.py",
        "            self._log_rewritten(at.offset, at.leader_epoch)\n        else:",
        "            log.position = Offset(at.offset - 1)\n        else:",
        "tests/kips/test_kip_595_records.py::test_a_re_read_record_is_found_by_offset_and_epoch_and_changes_nothing",
        rows="K046",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "        leader_epoch = None if leader_epoch is None else leader_epoch + 1\n",
        "        leader_epoch = None if leader_epoch is None else leader_epoch + (new_leader != before.leader)\n",
        "tests/kips/test_kip_704_promises.py::test_a_stuck_recovery_fires_with_its_fields_and_partitions",
        rows="K047",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "            None if partition_epoch is None else partition_epoch + 1,\n",
        "            None if partition_epoch is None else partition_epoch + leader_set,\n",
        "tests/kips/test_kip_704_promises.py::test_a_stuck_recovery_fires_with_its_fields_and_partitions",
        rows="K047",
    ),
)
