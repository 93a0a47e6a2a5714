"""Bugs against the plain statement of a row of KIP-704 and KIP-853 (rows B and C).

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "streaming/replay/recovery_change.py",
        "return tuple(node for node in holders if node not in now.isr)",
        "return tuple(node for node in now.replicas if node not in now.isr)",
        "tests/unit/streaming/replay/test_unclean_election_history.py::test_a_replica_that_is_elected_instead_of_the_last_leader_passes_it_over",
        rows="B002",
    ),
    Bug(
        "connectors/metadata/run_rows.py",
        "    if state == absent:\n        return None",
        "    if state == absent or state < 0:\n        return None",
        "tests/kips/test_kip_704_recovery.py::test_the_state_is_one_byte_with_two_values",
        rows="B006",
    ),
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
        "replicas, isr, elr, last_known_elr = lists if",
        "isr, replicas, elr, last_known_elr = lists if",
        "tests/kips/test_kip_704_recovery.py::test_each_tagged_field_of_a_change_is_read_by_its_tag",
        rows="B032",
    ),
    Bug(
        "connectors/metadata/run_rows.py",
        "replicas, isr, elr, last_known_elr = lists if",
        "replicas, isr, last_known_elr, elr = lists if",
        "tests/kips/test_kip_704_recovery.py::test_each_tagged_field_of_a_change_is_read_by_its_tag",
        rows="B032",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "            isr if new_isr is None else new_isr,",
        "            new_isr or isr,",
        "tests/kips/test_kip_704_promises.py::test_a_recovering_partition_without_a_leader_is_offline",
        rows="B034",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "            replicas if new_replicas is None else new_replicas,\n            isr",
        "            replicas,\n            isr",
        "tests/kips/test_kip_704_recovery.py::test_a_reassignment_keeps_the_state",
        rows="B034",
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
        "tests/unit/streaming/replay/test_log_scenarios.py::test_what_changes_with_each_observation",
        rows="B039",
    ),
    Bug(
        "rules/checks/recovery_invariant_broken.py",
        ("            if (quorum.newest_timestamp_ms or 0) - each.timestamp_ms <= thresholds.ms(KEEP_FIRING_FOR.name)"),
        "            if (quorum.newest_timestamp_ms or 0) - each.timestamp_ms <= 60_000",
        "tests/kips/test_kip_704_promises.py::test_the_leader_ends_recovery_and_an_election_does_not",
        rows="B043",
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
        "connectors/metadata/record_to_event.py",
        '            listener=value["name"],',
        '            listener=value["name"].upper(),',
        "tests/kips/test_kip_853_voter_endpoints.py::test_a_voter_has_several_listeners_by_name_and_ports_above_32767",
        rows="C001",
    ),
    Bug(
        "connectors/metadata/record_to_event.py",
        '            endpoints=_endpoints(voter["endpoints"]),',
        '            endpoints=_endpoints(voter["endpoints"][:1]),',
        "tests/kips/test_kip_853_voter_endpoints.py::test_a_voter_has_several_listeners_by_name_and_ports_above_32767",
        rows="C002",
    ),
    Bug(
        "connectors/metadata/record_to_event.py",
        '            port=value["port"],',
        '            port=value["port"] & 0x7FFF,',
        "tests/kips/test_kip_853_voter_endpoints.py::test_a_voter_has_several_listeners_by_name_and_ports_above_32767",
        rows="C002",
    ),
    Bug(
        "streaming/status/build_voters.py",
        (
            "        last_fetch_timestamp_ms=row.last_fetch_ms,\n"
            "        last_caught_up_timestamp_ms=row.last_caught_up_ms,"
        ),
        (
            "        last_fetch_timestamp_ms=row.last_caught_up_ms,\n"
            "        last_caught_up_timestamp_ms=row.last_fetch_ms,"
        ),
        "tests/kips/test_kip_595_metrics.py::test_all_fields_of_the_admin_api_are_reported_and_unknown_is_null",
        rows="C023",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "        observers=tuple(map(_replica, partition.observers)),",
        (
            "        observers=tuple(Replica(key=one.key, log_end_offset=one.log_end_offset, "
            "last_fetch_ms=None, last_caught_up_ms=None) for one in map(_replica, partition.observers)),"
        ),
        "tests/kips/test_kip_595_fetch.py::test_describe_quorum_returns_leader_epoch_high_watermark_voters_and_observers",
        rows="C023",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "        moved=tuple(moving_voters(quorum.poll, quorum.committed)),",
        "        moved=(),",
        "tests/kips/test_kip_853_voter_endpoints.py::test_the_leaders_and_the_logs_voter_endpoints_are_both_reported",
        rows="C024",
    ),
    Bug(
        "rules/analysis/voter_status.py",
        "and _addresses(pending) != _addresses(voter.endpoints)",
        "and not _addresses(pending) & _addresses(voter.endpoints) and False",
        "tests/kips/test_kip_853_voter_endpoints.py::test_the_leaders_and_the_logs_voter_endpoints_are_both_reported",
        rows="C024",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "nodes=tuple(map(_node, response.nodes or ())),",
        "nodes=tuple(map(_node, (response.nodes or ())[:1])),",
        "tests/kips/test_kip_853_voter_endpoints.py::test_a_poll_has_every_listener_of_a_node",
        rows="C024",
    ),
    Bug(
        "connectors/gather/node_directory.py",
        "self._polled = {node.id: node.endpoints for node in event.nodes}",
        "self._polled = {**{node.id: node.endpoints for node in event.nodes}, **self._polled}",
        "tests/unit/connectors/gather/test_node_directory.py::test_a_moved_node_is_contacted_where_the_newest_poll_else_its_registration_says",
        rows="C024",
    ),
    Bug(
        "connectors/metadata/record_to_event.py",
        "def _endpoints(values: list[Values]) -> tuple[Endpoint, ...]:\n",
        (
            "def _endpoints(values: list[Values]) -> tuple[Endpoint, ...]:\n"
            "    if not values:\n"
            '        raise UndecodableError("has no endpoints")\n'
        ),
        "tests/unit/connectors/metadata/test_record_to_event.py::test_a_voters_record_gives_the_whole_set_and_a_zero_directory_id_is_none",
        rows="C028",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "        recorded=None if endpoint.endpoint is None else str(endpoint.endpoint),",
        "        recorded=str(endpoint.endpoint),",
        "tests/kips/test_kip_853_voter_endpoints.py::test_a_voter_without_endpoints_is_unknown_and_not_stale",
        rows="C028",
    ),
)
