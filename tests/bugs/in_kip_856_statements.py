"""Bugs against the plain statement of a row of KIP-856 (rows A).

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
        "rules/checks/failure_tolerance.py",
        "        severity=Severity.WARNING if spare == 0 else Severity.CRITICAL,",
        "        severity=Severity.CRITICAL,",
        "tests/kips/test_kip_856_disk_replaced.py::test_one_replaced_disk_is_a_warning_and_a_majority_is_critical",
        rows="A006",
    ),
    Bug(
        "rules/analysis/restart_election.py",
        "if one.alive and one.key in one.voters.keys)",
        "if one.alive and one.key.id in one.voters.ids)",
        "tests/kips/test_kip_856_votes.py::test_a_replica_with_another_directory_id_has_no_vote_of_the_voter_with_its_id",
        rows="A008",
    ),
    Bug(
        "rules/rescue/node_decisions.py",
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
        "streaming/status/build_status.py",
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
        "connectors/logdir/log_dir_files.py",
        "directory_id=None if directory == _NO_DIRECTORY else DirectoryId(directory)),",
        "directory_id=DirectoryId(directory)),",
        "tests/kips/test_kip_856_names.py::test_the_leader_and_the_vote_of_a_quorum_state_are_not_confused",
        rows="A018",
    ),
    Bug(
        "streaming/status/build_status.py",
        "voted_directory_id=voted.directory_id if voted else None,",
        "voted_directory_id=None,",
        "tests/kips/test_kip_595_observed_elections.py::test_the_vote_on_a_disk_is_shown_with_its_epoch",
        rows="A018",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        '_NO_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAA"',
        '_NO_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAA=="',
        "tests/kips/test_kip_856_names.py::test_the_leader_and_the_vote_of_a_quorum_state_are_not_confused",
        rows="A018",
    ),
    Bug(
        "streaming/replay/recent_history.py",
        "    if len(before.keys ^ after.keys) <= 1:",
        "    if len(before.ids ^ after.ids) <= 1:",
        "tests/kips/test_kip_856_voter_changes.py::test_a_change_of_several_voters_is_replayed_and_fires",
        rows="A019",
    ),
    Bug(
        "rules/checks/voter_disk_replaced.py",
        "            *wait_for_pending_change(quorum),\n",
        "",
        "tests/kips/test_kip_856_voter_changes.py::test_while_a_change_is_pending_every_remedy_says_to_start_no_other",
        rows="A021",
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
        "streaming/rescue/rescue_plan.py",
        "            below = max(below, ends_of_voters[voters.majority - 1])",
        "            below = max(below, ends_of_voters[0])",
        "tests/kips/test_kip_1347_rescue.py::test_different_log_ends_and_possibly_uncommitted_records_are_reported",
        rows="A040",
    ),
    Bug(
        "streaming/metrics/rates.py",
        "    return lag_times_ms[needed - 1] if voters and len(lag_times_ms) >= needed else None",
        "    return lag_times_ms[-1] if voters and len(lag_times_ms) >= needed else None",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_commit_waits_for_the_voter_that_completes_the_majority",
        rows="A040",
    ),
    Bug(
        "streaming/replay/leadership_state.py",
        "        if answers >= LOWER_ANSWERS and now_ms - since_ms >= LOWER_MS:",
        "        if answers >= LOWER_ANSWERS:",
        "tests/unit/streaming/replay/test_leadership_state.py::test_high_watermark_decreases_to_the_highest_of_three_answers_of_ten_seconds",
        rows="A041",
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
        "rules/checks/voter_disk_replaced.py",
        "    for row in sorted(poll.observers, key=",
        "    for row in sorted((row for row in poll.observers if row.key.id in quorum.controllers), key=",
        "tests/kips/test_kip_856_disk_replaced.py::test_a_voter_directory_that_never_fetched_from_this_leader_is_replaced_too",
        rows="A049",
    ),
    Bug(
        "connectors/metadata/record_to_event.py",
        "    if len(listed) > MOST_VOTERS:",
        "    if len(listed) > 2:",
        "tests/kips/test_kip_595_records.py::test_the_voters_are_in_the_fetched_records",
        rows="A056",
    ),
    Bug(
        "connectors/metadata/record_to_event.py",
        (
            '    "KRaftVersionRecord": lambda at, values: KRaftVersionSet(\n'
            '        at=at, version=valid_number("kraft.version", values["kraft_version"], 0, '
            "LARGEST_INT16)"
        ),
        (
            '    "KRaftVersionRecord": lambda at, values: KRaftVersionSet(\n'
            '        at=at, version=valid_number("kraft.version", values["kraft_version"], 0, 0)'
        ),
        "tests/unit/connectors/metadata/test_record_to_event.py::test_a_record_gives_its_event",
        rows="A056",
    ),
    Bug(
        "connectors/logdir/log_dir_reader.py",
        "(one for file in (*files.snapshots, *files.segments) for one in _voter_sets(file))",
        (
            "[one for file in files.segments for one in _voter_sets(file)] or [\n"
            "        one for file in files.snapshots for one in _voter_sets(file)\n"
            "    ]"
        ),
        "tests/kips/test_kip_1347_rescue.py::test_snapshot_and_later_records_equal_the_whole_log",
        rows="A057",
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
        "connectors/logdir/log_dir_files.py",
        "    if version not in (0, 1):",
        "    if version not in (0, 1, 2):",
        "tests/kips/test_kip_856_names.py::test_the_leader_and_the_vote_of_a_quorum_state_are_not_confused",
        rows="A062",
    ),
    Bug(
        "rules/checks/observer_could_be_voter.py",
        "            *shared.pending_change,\n",
        "",
        "tests/kips/test_kip_856_voter_changes.py::test_while_a_change_is_pending_every_remedy_says_to_start_no_other",
        rows="A068",
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
        "streaming/replay/leadership_state.py",
        "elif isinstance(event, VotersReplaced) and Epoch(-1) < before < epoch:",
        "elif isinstance(event, VotersReplaced) and Epoch(-1) < before == epoch - 1:",
        "tests/unit/streaming/replay/test_election_facts.py::test_a_voters_record_before_the_leader_change_of_its_epoch_violates_an_invariant",
        rows="A070",
    ),
    Bug(
        "streaming/replay/leadership_state.py",
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
        "streaming/replay/poll_history.py",
        "    histories = {history.key: history for history in known}\n    leader",
        (
            "    histories = {history.key: history for history in known if history.key.id not in "
            "{row.key.id for row in poll.observers}}\n"
            "    leader"
        ),
        "tests/kips/test_kip_856_disk_replaced.py::test_progress_is_kept_for_each_disk_of_a_node",
        rows="A081 K024",
    ),
    Bug(
        "streaming/replay/leadership_state.py",
        "        if known != leader:\n",
        "        if known < leader:\n",
        "tests/kips/test_invariants_of_the_texts.py::test_two_leader_change_records_of_one_epoch_with_two_leaders_are_critical",
        rows="A087",
    ),
    Bug(
        "connectors/kafka/messages.py",
        'leader = optional(NodeId, partition.leader_id, "DescribeQuorum: leader_id")',
        'leader = optional(NodeId, partition.current_voters[0].replica_id, "DescribeQuorum: leader_id")',
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
        'high_watermark=optional(Offset, partition.high_watermark, "DescribeQuorum: high_watermark"),',
        "high_watermark=max(0, partition.high_watermark),",
        "tests/unit/connectors/kafka/test_messages.py::test_minus_one_and_zero_uuid_of_a_poll_are_none",
        rows="A093",
    ),
    Bug(
        "rules/analysis/replica_lag.py",
        "age_ms(leader.last_fetch_ms, row",
        "age_ms(poll.observed_at_ms, row",
        "tests/kips/test_kip_856_gauges.py::test_a_leader_whose_clock_differs_from_the_monitors_shows_who_fetches",
        rows="A095",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "and row.key.id in quorum.controllers and row.key not in voting",
        "and row.key.id in quorum.controllers and row.key.id not in {key.id for key in voting}",
        "tests/kips/test_kip_856_gauges.py::test_the_four_gauges_of_the_text_are_computed",
        rows="A096 A100",
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
        "cells = (row.node_id, row.directory_id, row",
        "cells = (row.node_id, None, row",
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
        "streaming/metrics/quorum_metrics.py",
        "_pending(lambda pending: bool(pending.added)),",
        "_pending(lambda pending: bool(pending.added) and not pending.removed),",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_uncommitted_voter_change_is_pending",
        rows="A101",
    ),
    Bug(
        "streaming/status/status_tables.py",
        '("could be voters", status.could_be_voters, "yellow"),',
        '("could be voters", (), "yellow"),',
        "tests/unit/streaming/status/test_status_tables.py::test_every_replica_is_shown_with_its_directory_id",
        rows="A106",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "        directory_id=row.key.directory_id,\n        log_end_offset",
        "        directory_id=voter.key.directory_id if voter else row.key.directory_id,\n        log_end_offset",
        "tests/unit/streaming/status/test_status_tables.py::test_every_replica_is_shown_with_its_directory_id",
        rows="A108 D099",
    ),
)
