"""Bugs against what KIP-704 (rows B) and the drafts of KIP-853 (rows C) say: recovery, and the voters' endpoints.

`sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "rules/checks/partition_stuck_recovering.py",
        "recovery.topic in _LOSS_CONSEQUENCE and not only_unflushed(recovery)",
        'recovery.topic == "__transaction_state" and not only_unflushed(recovery)',
        "tests/kips/test_kip_704_promises.py::test_internal_topics_have_a_higher_severity",
        rows="B003",
    ),
    Bug(
        "rules/checks/partition_stuck_recovering.py",
        '    "__share_group_state": "share groups may deliver records again",\n',
        "",
        "tests/kips/test_kip_704_promises.py::test_internal_topics_have_a_higher_severity",
        rows="B003",
    ),
    Bug(
        "rules/checks/partition_stuck_recovering.py",
        "recovery.topic in _LOSS_CONSEQUENCE and not only_unflushed(recovery)",
        "recovery.topic in _LOSS_CONSEQUENCE",
        "tests/unit/rules/test_partition_stuck_recovering.py::test_after_an_election_of_the_last_leader_only_unflushed_records_can_be_lost",
        rows="B003",
    ),
    Bug(
        "streaming/replay/partitions.py",
        (
            "            if began.elected:\n"
            "                self.unclean.append(unclean_election(event, topic, before, now, origin))"
        ),
        "            self.unclean.append(unclean_election(event, topic, before, now, origin))",
        "tests/kips/test_kip_704_promises.py::test_recovering_without_another_leader_is_a_violation",
        rows="B004",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "if event.recovering is False:\n            self._end",
        "if event.recovering is False and event.leader is not None:\n            self._end",
        "tests/unit/streaming/replay/test_log_scenarios.py::test_what_changes_with_each_observation",
        rows="B007",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "event.leader is None or event.leader == known.leader or event.replicas is not None",
        "event.leader is None or event.replicas is not None",
        "tests/kips/test_kip_704_promises.py::test_the_leader_ends_recovery_and_an_election_does_not",
        rows="B008",
    ),
    Bug(
        "rules/checks/recovery_invariant_broken.py",
        "leader=recovery.leader,\n        offset=recovery.since_offset",
        "leader=None,\n        offset=recovery.since_offset",
        "tests/kips/test_kip_704_promises.py::test_recovering_with_more_than_one_in_sync_replica_is_a_violation",
        rows="B009",
    ),
    Bug(
        "rules/checks/recovery_invariant_broken.py",
        "(recovery.leader is not None and recovery.isr != (recovery.leader,))",
        "(recovery.leader is not None and not recovery.isr)",
        "tests/kips/test_invariants_of_the_texts.py::test_another_leader_of_a_recovering_partition_is_elected_uncleanly",
        rows="B010",
    ),
    Bug(
        "streaming/replay/partitions.py",
        (
            "            if before is not None and passed_over(before, now):\n"
            "                self.unclean.append(unclean_election(event, topic, before, now, origin))\n"
        ),
        "",
        "tests/kips/test_invariants_of_the_texts.py::test_another_leader_of_a_recovering_partition_is_elected_uncleanly",
        rows="B010",
    ),
    Bug(
        "connectors/metadata/run_rows.py",
        "leader_set=is_set, recovering=recovers)",
        "leader_set=is_set, recovering=None)",
        "tests/unit/connectors/metadata/test_decoder.py::test_a_log_by_kafka_replays_to_kafkas_state",
        rows="B016",
    ),
    Bug(
        "connectors/metadata/record_to_event.py",
        "        recovering=state,\n",
        "        recovering=False,\n",
        "tests/kips/test_kip_704_recovery.py::test_the_state_is_read_beside_fields_of_a_later_kafka",
        rows="B016",
    ),
    Bug(
        "connectors/metadata/record_to_event.py",
        'recovering=recovering(values["leader_recovery_state"], absent=UNCHANGED_STATE)',
        "recovering=None",
        "tests/kips/test_kip_704_recovery.py::test_the_state_is_read_beside_fields_of_a_later_kafka",
        rows="B016",
    ),
    Bug(
        "rules/checks/recovery_invariant_broken.py",
        'details={"isr": [*recovery.isr],',
        'details={"isr": [*recovery.replicas],',
        "tests/kips/test_kip_704_promises.py::test_recovering_with_more_than_one_in_sync_replica_is_a_violation",
        rows="B024",
    ),
    Bug(
        "streaming/replay/recovery_change.py",
        "return event.leader is not None and (before is None or event.leader != before.leader)",
        "return event.leader is not None",
        "tests/kips/test_kip_704_promises.py::test_recovering_without_another_leader_is_a_violation",
        rows="B025",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "if event.recovering is False:\n            self._end",
        "if event.recovering is False and event.isr is None:\n            self._end",
        "tests/kips/test_kip_704_promises.py::test_a_broker_without_the_state_ends_recovery_and_nothing_fires",
        rows="B026",
    ),
    Bug(
        "streaming/replay/partitions.py",
        (
            "    if leader_set:\n"
            "        leader = new_leader\n"
            "        leader_epoch = None if leader_epoch is None else leader_epoch + 1\n"
        ),
        (
            "    leader_epoch = None if leader_epoch is None else leader_epoch + 1\n"
            "    if leader_set:\n"
            "        leader = new_leader\n"
        ),
        "tests/kips/test_kip_704_promises.py::test_a_stuck_recovery_fires_with_its_fields_and_partitions",
        rows="B034",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "        elif known is not None:\n            self._keep",
        (
            "        elif now.leader is None:\n"
            "            self._end_recovery(key)\n"
            "        elif known is not None:\n"
            "            self._keep"
        ),
        "tests/kips/test_invariants_of_the_texts.py::test_the_same_leader_may_return_from_its_isr_of_one_and_is_still_recovering",
        rows="B041",
    ),
    Bug(
        "rules/checks/recovery_invariant_broken.py",
        "(recovery.leader is not None and recovery.isr != (recovery.leader,))",
        "recovery.isr != (recovery.leader,)",
        "tests/unit/rules/test_recovery_invariant_broken.py::test_recoveries_that_kafka_writes_are_allowed",
        rows="B046",
    ),
    Bug(
        "rules/checks/partition_stuck_recovering.py",
        "        condition_age_ms=oldest.condition_age_ms,\n",
        "",
        "tests/kips/test_kip_704_promises.py::test_a_stuck_recovery_fires_with_its_fields_and_partitions",
        rows="B047",
    ),
    Bug(
        "streaming/replay/recovery_change.py",
        "known.leader_changes + (now.leader is not None and now.leader != before.leader)",
        "known.leader_changes + (now.leader != before.leader)",
        "tests/kips/test_kip_704_promises.py::test_a_recovering_partition_without_a_leader_is_offline",
        rows="B048",
    ),
    Bug(
        "rules/checks/partition_stuck_recovering.py",
        "changes = sum(case.recovery.leader_changes for case in cases)",
        "changes = max(case.recovery.leader_changes for case in cases)",
        "tests/kips/test_kip_704_promises.py::test_partitions_of_a_topic_are_one_alert_since_the_first_of_them",
        rows="B048",
    ),
    Bug(
        "rules/evaluate.py",
        "level < _RECOVERY_STATE_SINCE",
        "level <= _RECOVERY_STATE_SINCE",
        "tests/kips/test_other_kafka_versions.py::test_from_metadata_version_3_2_on_recovery_is_evaluated",
        rows="B050",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "if event.recovering is False:\n            self._end",
        "if event.recovering is False and len(now.isr) == 1:\n            self._end",
        "tests/kips/test_kip_704_promises.py::test_a_broker_without_the_state_ends_recovery_and_nothing_fires",
        rows="B052",
    ),
    Bug(
        "connectors/metadata/record_to_event.py",
        '            kraft_versions=_kraft_versions(voter["kraft_version_feature"]),\n',
        "",
        "tests/unit/connectors/metadata/test_record_to_event.py::test_a_voters_record_gives_the_whole_set_and_a_zero_directory_id_is_none",
        rows="C002",
    ),
    Bug(
        "connectors/metadata/record_to_event.py",
        ('for name in ("min_supported_version", "max_supported_version")\n    )\n    return FeatureRange(name="kraft'),
        ('for name in ("max_supported_version", "min_supported_version")\n    )\n    return FeatureRange(name="kraft'),
        "tests/unit/connectors/metadata/test_record_to_event.py::test_a_voters_record_gives_the_whole_set_and_a_zero_directory_id_is_none",
        rows="C002",
    ),
    Bug(
        "rules/model/identifiers.py",
        "if one.listener.lower() == listener.lower()), None)",
        "if one.listener == listener), None)",
        "tests/kips/test_kip_853_voter_endpoints.py::test_only_the_listener_of_the_same_name_is_compared",
        rows="C004",
    ),
    Bug(
        "rules/analysis/voter_status.py",
        "and not same_replica(removal.key, key)\n",
        "",
        "tests/kips/test_kip_853_voter_endpoints.py::test_a_first_directory_id_is_not_a_replaced_disk",
        rows="C010",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "row.key.directory_id is not None and row.key.id in quorum.controllers",
        "row.key.id in quorum.controllers",
        "tests/kips/test_kip_856_gauges.py::test_an_observer_without_a_directory_id_cannot_be_a_voter",
        rows="C016",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "last_caught_up_ms=optional(Millis, row.last_caught_up_timestamp,",
        "last_caught_up_ms=optional(Millis, row.last_fetch_timestamp,",
        "tests/unit/connectors/kafka/test_messages.py::test_minus_one_and_zero_uuid_of_a_poll_are_none",
        rows="C023",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "endpoints=tuple(endpoints))\n\n\ndef _directory",
        "endpoints=tuple(endpoints)[:1])\n\n\ndef _directory",
        "tests/kips/test_kip_853_voter_endpoints.py::test_a_poll_has_every_listener_of_a_node",
        rows="C024",
    ),
    Bug(
        "rules/analysis/endpoint_status.py",
        "if probe.connection is Connection.REFUSED and fetched_since:",
        "if probe.connection is Connection.REFUSED:",
        "tests/unit/rules/test_stale_voter_endpoint.py::test_endpoint_that_is_not_stale_is_not_reported",
        rows="C026",
    ),
    Bug(
        "rules/analysis/endpoint_status.py",
        "if registered and (",
        "if registered and probe and (",
        "tests/kips/test_kip_1347_stale_endpoints.py::test_a_controller_that_registered_another_host_or_port_fires",
        rows="C026",
    ),
    Bug(
        "connectors/metadata/record_to_event.py",
        '1: "SSL", 2: "SASL_PLAINTEXT"',
        '1: "SASL_PLAINTEXT", 2: "SSL"',
        "tests/kips/test_kip_853_voter_endpoints.py::test_a_registration_has_kafkas_security_protocol_by_its_number",
        rows="C027",
    ),
    Bug(
        "connectors/metadata/record_to_event.py",
        '            protocol=_PROTOCOLS.get(value.get("security_protocol")),\n',
        "",
        "tests/kips/test_kip_853_voter_endpoints.py::test_a_registration_has_kafkas_security_protocol_by_its_number",
        rows="C027",
    ),
    Bug(
        "rules/analysis/endpoint_status.py",
        'unknown_reason="the VotersRecord names no endpoint for it"',
        "unknown_reason=None",
        "tests/kips/test_kip_853_voter_endpoints.py::test_a_voter_without_endpoints_is_unknown_and_not_stale",
        rows="C028",
    ),
)
