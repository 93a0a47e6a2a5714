"""Bugs against the plain statement of a row of the sample of seed 419, in any of the KIPs.

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "streaming/rescue/rescue_plan.py",
        "best = max(assessed, key=lambda one: one.position)",
        "best = min(assessed, key=lambda one: one.position)",
        "tests/kips/test_kip_1347_brokers_and_views.py::test_voters_are_only_started_if_all_disks_hold_the_same_voters",
        rows="A009",
    ),
    Bug(
        "rules/remedies/remedy_commands.py",
        "{' '.join(_bootstrap(quorum, excluding=node))}",
        "{' '.join(_bootstrap(quorum, excluding=None))}",
        "tests/kips/test_kip_856_gauges.py::test_a_removal_command_has_id_and_directory",
        rows="A020",
    ),
    Bug(
        "connectors/logdir/complete_log.py",
        "self._control[type_] = read_body(",
        "self._control[type_] = self._control.get(type_) or read_body(",
        "tests/unit/connectors/logdir/test_complete_log.py::test_snapshot_of_a_real_log_adds_up_to_the_same_state_with_the_new_endpoints",
        rows="A023",
    ),
    Bug(
        "rules/remedies/remedy_commands.py",
        "known = None not in {key.directory_id for key in poll.voter_keys}",
        "known = True",
        "tests/kips/test_kip_856_gauges.py::test_voters_without_a_known_directory_are_reported_as_such",
        rows="A072",
    ),
    Bug(
        "rules/evaluate.py",
        "return None if poll is not None and poll.leader is not None else poll_problem(quorum)",
        "return None if poll is not None else poll_problem(quorum)",
        "tests/kips/test_kip_856_gauges.py::test_without_the_leaders_times_nobody_is_said_not_to_fetch",
        rows="A097",
    ),
    Bug(
        "streaming/replay/recovery_change.py",
        "holders.isdisjoint(now.isr)) and {*now.isr} != {*now.replicas}",
        "holders.isdisjoint(now.isr))",
        "tests/unit/streaming/replay/test_log_scenarios.py::test_what_changes_with_each_observation",
        rows="B002",
    ),
    Bug(
        "rules/model/identifiers.py",
        "if one.listener.lower() == listener.lower()), None)",
        "if one.listener == listener), None)",
        "tests/kips/test_kip_1347_stale_endpoints.py::test_a_listener_is_the_same_in_capitals_and_in_small_letters",
        rows="C001",
    ),
    Bug(
        "rules/checks/failure_tolerance.py",
        "window, recent = thresholds.ms(WINDOW.name), _recent",
        "window, recent = Millis(900_000), _recent",
        "tests/unit/rules/test_boundaries.py::test_the_window_of_outages_can_be_configured",
        rows="D016",
    ),
    Bug(
        "streaming/replay/machine.py",
        "        if at.offset <= log.position:",
        "        if at.offset < log.position:",
        "tests/kips/test_kip_595_records.py::test_a_re_read_record_is_found_by_offset_and_epoch_and_changes_nothing",
        rows="D017",
    ),
    Bug(
        "connectors/gather/node_directory.py",
        "if response.leader_id is not None and response.leader is not None:",
        "if response.leader_id and response.leader is not None:",
        "tests/unit/connectors/gather/test_node_directory.py::test_a_leader_that_one_node_names_with_its_address_is_found_when_another_names_it_without",
        rows="D033",
    ),
    Bug(
        "rules/checks/views_disagree.py",
        "view.observed_at_ms >= since:",
        "view.observed_at_ms > since:",
        "tests/unit/rules/test_views_disagree.py::test_view_from_before_an_election_is_not_a_disagreement",
        rows="D043",
    ),
    Bug(
        "rules/checks/epoch_churn.py",
        "        found.update(one.offset for one in before[-1:] if one.leader_id == start.id)\n",
        "",
        "tests/unit/rules/test_log_rules.py::test_elections_that_no_restart_explains_are_churn",
        rows="D060",
    ),
    Bug(
        "connectors/gather/commit_buffer.py",
        "if response.snapshot.end_offset <= self.committed_end and self.committed_end > 0:",
        "if response.snapshot.end_offset <= self.committed_end:",
        "tests/unit/connectors/gather/test_commit_buffer.py::test_an_empty_reader_is_sent_to_any_snapshot",
        rows="D081",
    ),
    Bug(
        "streaming/replay/recent_history.py",
        "if previous is not None and previous.incarnation_id == event.incarnation_id:",
        "if previous is not None and previous.offset == event.at.offset:",
        "tests/unit/streaming/replay/test_log_scenarios.py::test_what_changes_with_each_observation",
        rows="D119",
    ),
    Bug(
        "rules/checks/observer_lagging.py",
        "row = sorted(rows, key=lambda row: row.last_fetch_ms or 0)[-1]",
        "row = sorted(rows, key=lambda row: row.last_fetch_ms or 0)[0]",
        "tests/unit/rules/test_log_rules.py::test_a_broker_with_a_new_disk_is_evaluated_by_the_directory_that_fetches",
        rows="D123",
    ),
    Bug(
        "streaming/status/build_status.py",
        "leader_epoch=quorum.leader_epoch,",
        "leader_epoch=poll.leader_epoch if poll else None,",
        "tests/kips/test_whole_outputs.py::test_fields_of_status_and_replication_and_partitions",
        rows="D143",
    ),
    Bug(
        "rules/checks/stale_voter_endpoint.py",
        "and_join(fault_text(each, status) for each in status.faults)",
        "and_join(fault_text(each, status) for each in status.faults[:1])",
        "tests/kips/test_whole_outputs.py::test_findings_with_evidence_and_remedy",
        rows="E015",
    ),
    Bug(
        "rules/checks/partition_stuck_recovering.py",
        '"clients_refused": any(',
        '"clients_refused": all(',
        "tests/kips/test_whole_outputs.py::test_findings_with_evidence_and_remedy",
        rows="K025",
    ),
)
