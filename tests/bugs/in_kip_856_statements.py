"""Bugs against the plain statement of a row of KIP-856 and KIP-853 (rows A and C).

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "streaming/replay/poll_history.py",
        "if end is not None and acknowledged is not None and end < acknowledged:",
        "if end and acknowledged is not None and end < acknowledged:",
        "tests/unit/streaming/replay/test_log_regression.py::test_log_end_below_committed_records_that_the_voter_had_is_kept_after_it_caught_up",
        rows="A004",
    ),
    Bug(
        "rules/checks/voter_log_regressed.py",
        "    for row in poll.voters:\n",
        "    for row in poll.voters if quorum.committed is not None else ():\n",
        "tests/unit/rules/test_voter_log_regressed.py::test_no_step_names_a_new_directory_id_in_a_static_quorum",
        rows="A004",
    ),
    Bug(
        "rules/checks/voter_disk_replaced.py",
        "        if liveness(quorum, poll, row.key, thresholds) is Liveness.FETCHING:\n            found",
        (
            "        if liveness(quorum, poll, row.key, thresholds) is Liveness.FETCHING and "
            "lag_ms(poll, row) == 0:\n"
            "            found"
        ),
        "tests/kips/test_kip_856_disk_replaced.py::test_a_new_disk_that_lags_is_not_added_before_it_has_caught_up",
        rows="A004 A048",
    ),
    Bug(
        "rules/analysis/restart_election.py",
        "if one.alive and one.key in one.voters.keys)",
        "if one.alive and one.key.id in one.voters.ids)",
        "tests/kips/test_kip_856_votes.py::test_a_replica_with_another_directory_id_has_no_vote_of_the_voter_with_its_id",
        rows="A008",
    ),
    Bug(
        "rules/rescue/surviving_disks.py",
        "of_voters = [disk for disk in ordered if disk.key in voters.keys]",
        "of_voters = [disk for disk in ordered if disk.key.id in voters.ids]",
        "tests/kips/test_kip_856_votes.py::test_a_replica_with_another_directory_id_has_no_vote_of_the_voter_with_its_id",
        rows="A008",
    ),
    Bug(
        "rules/rescue/node_decisions.py",
        "of_voters = [log for log in logs if log.key in voters.keys]",
        "of_voters = [log for log in logs if log.key.id in voters.ids]",
        "tests/kips/test_kip_856_votes.py::test_a_replica_with_another_directory_id_has_no_vote_of_the_voter_with_its_id",
        rows="A008",
    ),
    Bug(
        "streaming/rescue/rescue_plan.py",
        "assess(read, voters, None if provided is None else compare(voters.voters, provided))",
        "assess(read, voter_sets[0], None if provided is None else compare(voters.voters, provided))",
        "tests/kips/test_kip_1347_brokers_and_views.py::test_disks_with_old_and_new_endpoints_at_once_are_reported",
        rows="A009",
    ),
    Bug(
        "rules/analysis/restart_election.py",
        "needed=candidate.voters.majority,",
        "needed=max(one.voters.majority for one in by_id.values()),",
        "tests/kips/test_kip_856_votes.py::test_each_candidate_needs_a_majority_of_the_voters_of_its_own_log",
        rows="A009",
    ),
    Bug(
        "rules/checks/high_watermark_stalled.py",
        "    needed, in_sync = majority(len(statuses)), in_sync_count(statuses)",
        (
            "    needed, in_sync = (quorum.committed.majority if quorum.committed else "
            "majority(len(statuses))), in_sync_count(statuses)"
        ),
        "tests/kips/test_kip_856_voter_changes.py::test_the_majority_is_of_the_leaders_newest_set",
        rows="A011",
    ),
    Bug(
        "streaming/status/log_dir_status.py",
        "directory_id=meta.directory_id if meta else None,",
        "directory_id=None,",
        "tests/kips/test_kip_856_names.py::test_meta_properties_identify_a_metadata_log_dir",
        rows="A013",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        '_PAIR = re.compile(r"\\s*([^\\s=:#!][^\\s=:]*)\\s*[=:]?\\s*(.*)")',
        '_PAIR = re.compile(r"\\s*([^\\s=:#!][^\\s=:]*)\\s*[=:]?\\s*([A-Za-z0-9]*).*")',
        "tests/kips/test_kip_856_names.py::test_meta_properties_identify_a_metadata_log_dir",
        rows="A013",
    ),
    Bug(
        "rules/analysis/restart_election.py",
        '        return "its disk was replaced"\n',
        (
            '        return "its disk was replaced"\n'
            "    if candidate.key not in now.voters.keys:\n"
            '        return "its own voters lack the candidate"\n'
        ),
        "tests/kips/test_kip_856_votes.py::test_a_voter_grants_its_vote_to_a_candidate_that_its_own_log_does_not_list",
        rows="A038 A087",
    ),
    Bug(
        "rules/analysis/replica_lag.py",
        "    if age is None or age > thresholds.ms(FETCH_AGE.name):\n        return Liveness.NOT_FETCHING",
        (
            "    if age is None:\n"
            "        return Liveness.UNKNOWN\n"
            "    if age > thresholds.ms(FETCH_AGE.name):\n"
            "        return Liveness.NOT_FETCHING"
        ),
        "tests/kips/test_kip_856_disk_replaced.py::test_a_voter_directory_that_never_fetched_from_this_leader_is_replaced_too",
        rows="A048",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        "leader_id=None if leader == _NO_NODE else NodeId(leader),",
        "leader_id=NodeId(leader),",
        "tests/kips/test_kip_856_names.py::test_the_leader_and_the_vote_of_a_quorum_state_are_not_confused",
        rows="A062",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        ("        voted=None\n        if voted == _NO_NODE\n"),
        ("        voted=None\n        if voted <= 0\n"),
        "tests/kips/test_kip_856_names.py::test_the_leader_and_the_vote_of_a_quorum_state_are_not_confused",
        rows="A062",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        'leader_epoch=Epoch(int(content["leaderEpoch"])),',
        'leader_epoch=Epoch(max(0, int(content["leaderEpoch"]))),',
        "tests/kips/test_kip_856_names.py::test_the_leader_and_the_vote_of_a_quorum_state_are_not_confused",
        rows="A062",
    ),
    Bug(
        "rules/checks/voter_disk_replaced.py",
        "lagging = behind is None or behind > _LAGGING_MS",
        "lagging = behind is not None and behind > _LAGGING_MS",
        "tests/kips/test_kip_856_disk_replaced.py::test_a_new_disk_that_lags_is_not_added_before_it_has_caught_up",
        rows="A069",
    ),
    Bug(
        "rules/analysis/replica_lag.py",
        "if all(sample.lag_ms is not None and sample.lag_ms <= limit_ms for sample in recent):",
        "if all(sample.lag_ms is None or sample.lag_ms <= limit_ms for sample in recent):",
        "tests/unit/rules/test_window_of_samples.py::test_readiness_is_evaluated_on_the_window_and_not_on_one_sample",
        rows="A069",
    ),
    Bug(
        "streaming/replay/invariants.py",
        "elif isinstance(event, VotersReplaced) and Epoch(-1) < before < epoch:",
        "elif isinstance(event, VotersReplaced) and Epoch(-1) < before == epoch - 1:",
        "tests/unit/streaming/replay/test_election_facts.py::test_a_voters_record_before_the_leader_change_of_its_epoch_violates_an_invariant",
        rows="A070",
    ),
    Bug(
        "streaming/replay/invariants.py",
        "elif isinstance(event, VotersReplaced) and Epoch(-1) < before < epoch:",
        "elif isinstance(event, VotersReplaced) and Epoch(0) < before < epoch:",
        "tests/unit/streaming/replay/test_election_facts.py::test_a_voters_record_before_the_leader_change_of_its_epoch_violates_an_invariant",
        rows="A070",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "if row.key.directory_id is not None and row.key.id in quorum.controllers and row.key not in voting",
        "if row.key.directory_id is not None and row.key not in voting",
        "tests/kips/test_kip_856_gauges.py::test_the_four_gauges_of_the_text_are_computed",
        rows="A080 K031",
    ),
    Bug(
        "streaming/replay/invariants.py",
        "        if known != leader:\n",
        "        if known < leader:\n",
        "tests/kips/test_invariants_of_the_texts.py::test_two_leader_change_records_of_one_epoch_with_two_leaders_are_critical",
        rows="A087",
    ),
    Bug(
        "connectors/kafka/messages.py",
        'leader = node_id(partition.leader_id, "DescribeQuorum: leader_id")',
        'leader = node_id(partition.current_voters[0].replica_id, "DescribeQuorum: leader_id")',
        "tests/kips/test_kip_595_fetch.py::test_describe_quorum_returns_leader_epoch_high_watermark_voters_and_observers",
        rows="A093",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "observers=tuple(map(_replica, partition.observers)),",
        "observers=tuple(map(_replica, partition.observers or partition.current_voters)),",
        "tests/unit/connectors/kafka/test_messages.py::test_minus_one_and_zero_uuid_of_a_poll_are_none",
        rows="A093",
    ),
    Bug(
        "connectors/kafka/messages.py",
        'high_watermark=offset(partition.high_watermark, "DescribeQuorum: high_watermark"),',
        "high_watermark=max(0, partition.high_watermark),",
        "tests/unit/connectors/kafka/test_messages.py::test_minus_one_and_zero_uuid_of_a_poll_are_none",
        rows="A093",
    ),
    Bug(
        "streaming/status/build_status.py",
        "current_observers=tuple(row.key for row in poll.observers) if poll else (),",
        "current_observers=tuple(replace(row.key, directory_id=None) for row in poll.observers) if poll else (),",
        "tests/unit/streaming/status/test_status_tables.py::test_every_replica_is_shown_with_its_directory_id",
        rows="A098 A108",
    ),
    Bug(
        "streaming/status/status_tables.py",
        ("            row.node_id,\n            row.directory_id,\n            row.log_end_offset,"),
        ("            row.node_id,\n            None,\n            row.log_end_offset,"),
        "tests/unit/streaming/status/test_status_tables.py::test_every_replica_is_shown_with_its_directory_id",
        rows="A098 A108 D099",
    ),
    Bug(
        "streaming/status/status_tables.py",
        "cells = [one.id, one.directory_id, one.recorded,",
        "cells = [one.id, None, one.recorded,",
        "tests/unit/streaming/status/test_status_tables.py::test_every_replica_is_shown_with_its_directory_id",
        rows="A098",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "        directory_id=row.key.directory_id,\n        log_end_offset",
        "        directory_id=voter.key.directory_id if voter else row.key.directory_id,\n        log_end_offset",
        "tests/unit/streaming/status/test_status_tables.py::test_every_replica_is_shown_with_its_directory_id",
        rows="A108 D099",
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
        "rules/analysis/voter_changes.py",
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
