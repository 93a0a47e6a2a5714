"""Bugs against the plain statement of a row of KIP-704, KIP-1347 and the notes (rows B, E and K).

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "rules/checks/recovery_invariant_broken.py",
        "*(violation for each in quorum.recovering for violation in _while_recovering(each)),",
        "*(violation for each in quorum.recovering[:1] for violation in _while_recovering(each)),",
        "tests/unit/rules/test_recovery_invariant_broken.py::test_isr_other_than_the_leader_alone_is_a_violation",
        rows="B009 B024 K047",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "            if values.recovering or topic_id in recovering:\n",
        "            if values.recovering:\n",
        "tests/kips/test_kip_704_recovery.py::test_similar_changes_of_several_recovering_partitions_are_replayed",
        rows="B009 B024 B026 B038",
    ),
    Bug(
        "rules/checks/partition_stuck_recovering.py",
        "    leaderless = sum(case.recovery.leader is None for case in cases)",
        "    leaderless = sum(case.recovery.leader is not None for case in cases)",
        "tests/unit/rules/test_partition_stuck_recovering.py::test_severity_depends_on_the_replicas_that_could_join",
        rows="B011",
    ),
    Bug(
        "rules/checks/partition_stuck_recovering.py",
        'Clients are not refused{refused}."',
        'Clients are refused until then. Clients are not refused{refused}."',
        "tests/unit/rules/test_partition_stuck_recovering.py::test_severity_depends_on_the_replicas_that_could_join",
        rows="B011",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "        if event.recovering is False:\n            self._end",
        "        if event.recovering is False and len(now.isr) > 1:\n            self._end",
        "tests/kips/test_kip_704_promises.py::test_a_broker_without_the_state_ends_recovery_and_nothing_fires",
        rows="B026",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "            if values.recovering or topic_id in recovering:\n",
        "            if topic_id in recovering:\n",
        "tests/kips/test_kip_704_recovery.py::test_a_snapshot_contains_the_state",
        rows="B031",
    ),
    Bug(
        "connectors/metadata/run_rows.py",
        "    replicas, isr, elr, last_known_elr = lists\n    return",
        "    isr, replicas, elr, last_known_elr = lists\n    return",
        "tests/kips/test_kip_704_recovery.py::test_each_tagged_field_of_a_change_is_read_by_its_tag",
        rows="B032",
    ),
    Bug(
        "connectors/metadata/run_rows.py",
        "    replicas, isr, elr, last_known_elr = lists\n    return",
        "    replicas, isr, last_known_elr, elr = lists\n    return",
        "tests/kips/test_kip_704_recovery.py::test_each_tagged_field_of_a_change_is_read_by_its_tag",
        rows="B032",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "        if event.leader is None or event.leader == known.leader or event.replicas is not None:",
        "        if event.replicas is not None or event.isr is not None and len(event.isr) == 1:",
        "tests/kips/test_kip_704_promises.py::test_the_leader_ends_recovery_and_an_election_does_not",
        rows="B038",
    ),
    Bug(
        "streaming/replay/partitions.py",
        (
            "            self._keep_recovery(continued(known, before or UNKNOWN, now, origin))\n"
            "            if before is not None and passed_over(before, now):\n"
            "                self.unclean"
        ),
        (
            "            self._keep_recovery(continued(known, before or UNKNOWN, now, origin))\n"
            "            if before is not None and now.leader in now.isr and passed_over(before, now) "
            "and False:\n"
            "                self.unclean"
        ),
        "tests/kips/test_invariants_of_the_texts.py::test_another_leader_of_a_recovering_partition_is_elected_uncleanly",
        rows="B039",
    ),
    Bug(
        "streaming/replay/recovery_change.py",
        ("        isr=now.isr,\n        leader=now.leader,\n        previous_isr=isr,"),
        (
            "        since_offset=origin.offset if passed_over(before, now) else known.since_offset,\n"
            "        isr=now.isr,\n"
            "        leader=now.leader,\n"
            "        previous_isr=isr,"
        ),
        "tests/unit/streaming/replay/test_replay_partitions.py::test_a_second_unclean_election_adds_its_previous_in_sync_replicas",
        rows="B039",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "        if event.recovering is False:\n            self._end",
        (
            "        if event.recovering is False or (isinstance(event, PartitionChanged) and "
            "event.replicas is not None and event.isr is not None):\n"
            "            self._end"
        ),
        "tests/kips/test_kip_704_recovery.py::test_a_reassignment_keeps_the_state",
        rows="B045",
    ),
    Bug(
        "rules/checks/partition_stuck_recovering.py",
        '"partitions": [_evidence(case) for case in cases[:_MAX_LISTED]],',
        '"partitions": [_evidence(case) for case in cases[:1]],',
        "tests/kips/test_kip_704_promises.py::test_partitions_of_a_topic_are_one_alert_since_the_first_of_them",
        rows="B047",
    ),
    Bug(
        "rules/checks/partition_stuck_recovering.py",
        "    oldest = max(cases, key=lambda case: case.condition_age_ms)",
        "    oldest = min(cases, key=lambda case: case.condition_age_ms)",
        "tests/kips/test_kip_704_promises.py::test_partitions_of_a_topic_are_one_alert_since_the_first_of_them",
        rows="B047",
    ),
    Bug(
        "rules/checks/partition_stuck_recovering.py",
        "thresholds=(hold(60.0), clear(), JOIN",
        "thresholds=(hold(3600.0), clear(), JOIN",
        "tests/kips/test_thresholds.py::test_the_three_thresholds_without_a_value_in_the_texts_have_configurable_defaults",
        rows="B047",
    ),
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
        "rules/observability.py",
        "return log_read_problem(quorum) is None and quorum.committed is None and not quorum.kraft_version",
        "return log_read_problem(quorum) is None and quorum.committed is None",
        "tests/kips/test_kip_1347_stale_endpoints.py::test_a_static_quorum_has_no_recorded_endpoints",
        rows="E012",
    ),
    Bug(
        "rules/observability.py",
        "return log_read_problem(quorum) is None and quorum.committed is None and not quorum.kraft_version",
        "return quorum.last_offset is not None and quorum.committed is None and not quorum.kraft_version",
        "tests/kips/test_kip_1347_stale_endpoints.py::test_a_static_quorum_has_no_recorded_endpoints",
        rows="E012",
    ),
    Bug(
        "streaming/status/build_status.py",
        (
            "    if quorum.kraft_version is None:\n"
            "        return None\n"
            "    return QuorumMode.DYNAMIC if quorum.kraft_version else QuorumMode.STATIC"
        ),
        "    return QuorumMode.DYNAMIC if quorum.kraft_version else QuorumMode.STATIC",
        "tests/kips/test_kip_1347_stale_endpoints.py::test_a_static_quorum_has_no_recorded_endpoints",
        rows="E012",
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
        "streaming/replay/registrations.py",
        "    return {**others, event.name: event.level} if event.level else others",
        "    return known and {**known} or {event.name: event.level}",
        "tests/kips/test_kip_1347_rescue.py::test_snapshot_and_later_records_equal_the_whole_log",
        rows="E044",
    ),
    Bug(
        "connectors/logdir/log_dir_reader.py",
        "for snapshot in snapshots:\n        for event, _ in",
        "for snapshot in snapshots[-1:]:\n        for event, _ in",
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
        "streaming/replay/log.py",
        "            case TopicRemoved():\n                self.partitions.remove(record.topic_id)",
        "            case TopicRemoved():\n                pass",
        "tests/kips/test_kip_704_recovery.py::test_a_recreated_topic_has_no_recovery",
        rows="E044",
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
        "rules/model/poll.py",
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
