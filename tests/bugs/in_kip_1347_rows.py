"""Bugs against what KIP-1347 says (rows E): endpoints and the rescue.

`sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "rules/evaluate.py",
        ("return log_read_problem(quorum) is None and quorum.committed is None and not quorum.kraft_version"),
        "return quorum.committed is None and not quorum.kraft_version",
        "tests/kips/test_kip_1347_stale_endpoints.py::test_a_static_quorum_has_no_recorded_endpoints",
        rows="E004",
    ),
    Bug(
        "rules/analysis/endpoint_status.py",
        (
            "            other = probe.answered_by is not None and probe.answered_by != probe.node\n"
            '            return f"node {probe.answered_by}" if other else None\n'
            "        case Answer.NO_ANSWER | Answer.NOT_ALLOWED"
        ),
        (
            "            other = probe.answered_by is not None and probe.answered_by != probe.node\n"
            '            return f"node {probe.answered_by}" if other else None\n'
            "        case Answer.NO_ANSWER:\n"
            '            return "something that does not answer"\n'
            "        case Answer.NOT_ALLOWED"
        ),
        "tests/kips/test_invariants_of_the_texts.py::test_a_hanging_majority_raises_no_endpoint_alert",
        rows="E010",
    ),
    Bug(
        "rules/analysis/electability.py",
        "return len(giving) - ahead + (not candidate.reachable)",
        "return len(giving) - ahead",
        "tests/unit/rules/analysis/test_electability.py::test_changed_endpoints_give_the_result_of_real_quorums",
        rows="E013",
    ),
    Bug(
        "rules/checks/stale_voter_endpoint.py",
        "    if election.electable:\n        return Severity.WARNING",
        "    if not election.electable:\n        return Severity.WARNING",
        "tests/unit/rules/test_stale_voter_endpoint.py::test_severity_depends_on_the_result_of_an_election_now",
        rows="E014",
    ),
    Bug(
        "rules/analysis/endpoint_status.py",
        "(registered.host.lower(), registered.port) != (endpoint.host.lower(), endpoint.port)",
        "registered.host.lower() != endpoint.host.lower()",
        "tests/unit/rules/test_stale_voter_endpoint.py::test_stale_endpoint_is_reported_with_its_reason",
        rows="E015",
    ),
    Bug(
        "rules/analysis/endpoint_status.py",
        "(registered.host.lower(), registered.port) != (endpoint.host.lower(), endpoint.port)",
        "registered.port != endpoint.port",
        "tests/kips/test_kip_1347_stale_endpoints.py::test_a_controller_that_registered_another_host_or_port_fires",
        rows="E015",
    ),
    Bug(
        "streaming/rescue/rescue_plan.py",
        '{voter_set_text(provided)}"',
        '{voter_set_text(one.voters.voters)}"',
        "tests/kips/test_kip_1347_rescue.py::test_the_dry_run_prints_every_line_of_the_override_and_writes_nothing",
        rows="E021",
    ),
    Bug(
        "rules/rescue/voter_override.py",
        "hasDirectoryIdChanges={directories}",
        "hasDirectoryIdChanges={ids}",
        "tests/unit/rules/rescue/test_voter_override.py::test_difference_is_printed_as_in_the_kip",
        rows="E023",
    ),
    Bug(
        "rules/rescue/voter_override.py",
        "has_voter_id_changes=before.keys() != after.keys()",
        "has_voter_id_changes=not before.keys() <= after.keys()",
        "tests/kips/test_kip_1347_rescue.py::test_only_new_endpoints_are_accepted",
        rows="E029",
    ),
    Bug(
        "connectors/logdir/complete_log.py",
        '        (ControlRecordType.KRAFT_VERSION, {"version": 0, "kraft_version": log.kraft_version}),\n',
        "",
        "tests/kips/test_kip_1347_rescue.py::test_the_written_snapshot_has_these_parts_in_batches_of_its_epoch",
        rows="E030",
    ),
    Bug(
        "streaming/rescue/rescue_plan.py",
        "return self.key.id in self.voters.ids",
        "return True",
        "tests/kips/test_kip_1347_rescue.py::test_a_broker_has_the_same_voters_as_the_controllers",
        rows="E036",
    ),
    Bug(
        "streaming/rescue/plan_output.py",
        "    yield from _brokers(plan, provided)\n",
        "",
        "tests/kips/test_kip_1347_brokers_and_views.py::test_a_broker_holds_the_old_endpoints_until_the_override_is_applied_to_its_disk_too",
        rows="E038",
    ),
    Bug(
        "streaming/rescue/plan_output.py",
        (
            '    yield "# Put the new endpoints into controller.quorum.bootstrap.servers and '
            'advertised.listeners of every node"\n'
        ),
        "",
        "tests/kips/test_kip_1347_rescue.py::test_the_steps_stop_all_controllers_and_then_change_controllers_before_brokers",
        rows="E039",
    ),
    Bug(
        "rules/rescue/voter_override.py",
        "if one.listener.upper() == new.listener.upper()]",
        "if one.listener == new.listener]",
        "tests/unit/rules/rescue/test_voter_override.py::test_only_the_controller_listener_is_compared_and_lost_listeners_are_named",
        rows="E041",
    ),
    Bug(
        "rules/rescue/voter_override.py",
        "others = tuple(one for one in before[node].endpoints if one not in recorded)",
        "others = before[node].endpoints[1:] if recorded else ()",
        "tests/unit/rules/rescue/test_voter_override.py::test_only_the_controller_listener_is_compared_and_lost_listeners_are_named",
        rows="E041",
    ),
    Bug(
        "connectors/logdir/log_dir_reader.py",
        "for snapshot in reversed(files.snapshots):",
        "for snapshot in files.snapshots:",
        "tests/kips/test_kip_1347_rescue.py::test_snapshot_and_later_records_equal_the_whole_log",
        rows="E043",
    ),
    Bug(
        "streaming/replay/log.py",
        "                image = replace(image, kraft_version=record.version)\n",
        ("                image = replace(image, kraft_version=record.version if self.origin is None else 0)\n"),
        "tests/kips/test_kip_1347_rescue.py::test_snapshot_and_later_records_equal_the_whole_log",
        rows="E044",
    ),
    Bug(
        "streaming/replay/log.py",
        "            self.transaction.held.append(record)\n",
        "            self._apply_data(record)\n",
        "tests/unit/streaming/replay/test_log_replay.py::test_a_transaction_is_applied_at_its_end_and_dropped_at_its_abort",
        rows="E045",
    ),
    Bug(
        "streaming/replay/log.py",
        "            for record in transaction.held:\n",
        "            for record in transaction.held[:1]:\n",
        "tests/kips/test_durations.py::test_an_open_transaction_at_the_end_of_the_read_log_fires_until_it_ends",
        rows="E045",
    ),
    Bug(
        "streaming/replay/log.py",
        "                self.transaction = Transaction(began=at, name=record.name)\n",
        "                self.transaction = self.transaction or Transaction(began=at, name=record.name)\n",
        "tests/unit/streaming/replay/test_log_replay.py::test_a_second_begin_drops_the_records_of_the_first",
        rows="E045",
    ),
    Bug(
        "streaming/replay/log.py",
        "                self._apply_control(record, self.origin or at)\n",
        (
            "                if self.transaction is None:\n"
            "                    self._apply_control(record, self.origin or at)\n"
        ),
        "tests/unit/streaming/replay/test_log_replay.py::test_a_transaction_is_applied_at_its_end_and_dropped_at_its_abort",
        rows="E046",
    ),
    Bug(
        "streaming/replay/quorum_builder.py",
        "if transaction is None or state.visible_image is not state.log.image:",
        "if transaction is None or not transaction.held:",
        "tests/kips/test_durations.py::test_an_open_transaction_at_the_end_of_the_read_log_fires_until_it_ends",
        rows="E047",
    ),
    Bug(
        "connectors/logdir/complete_log.py",
        "yield with_position(batch.content, base_offset=offset, leader_epoch=log.epoch)",
        "yield with_position(batch.content, base_offset=offset, leader_epoch=0)",
        "tests/kips/test_kip_1347_rescue.py::test_the_written_snapshot_has_these_parts_in_batches_of_its_epoch",
        rows="E048",
    ),
    Bug(
        "connectors/logdir/complete_log.py",
        '{"version": 0, "last_contained_log_timestamp": log.newest_ms}',
        '{"version": 0, "last_contained_log_timestamp": 0}',
        "tests/kips/test_kip_1347_rescue.py::test_the_written_snapshot_has_these_parts_in_batches_of_its_epoch",
        rows="E048",
    ),
    Bug(
        "streaming/rescue/rescue_plan.py",
        'views.setdefault(initial_controllers(one.voters.voters) or "", [])',
        "views.setdefault(str(sorted(one.voters.keys)), [])",
        "tests/kips/test_kip_1347_brokers_and_views.py::test_disks_with_old_and_new_endpoints_at_once_are_reported",
        rows="E069",
    ),
    Bug(
        "rules/analysis/electability.py",
        "giving = [voter for voter in voters if voter.alive and voter.reachable]",
        "giving = [voter for voter in voters if voter.reachable]",
        "tests/kips/test_kip_1347_stale_endpoints.py::test_counting_changed_voters_is_not_enough",
        rows="E072",
    ),
    Bug(
        "rules/analysis/endpoint_status.py",
        "if unconnected and vantage is Vantage.INSIDE:",
        "if unconnected:",
        "tests/kips/test_kip_1347_stale_endpoints.py::test_a_connection_that_times_out_is_unknown_only_from_inside",
        rows="E073",
    ),
    Bug(
        "streaming/rescue/apply_voters.py",
        "        if write:\n            log_dir_backup.make_backup",
        "        if True:\n            log_dir_backup.make_backup",
        "tests/kips/test_kip_1347_rescue.py::test_the_dry_run_prints_every_line_of_the_override_and_writes_nothing",
        rows="E075",
    ),
    Bug(
        "rules/rescue/voter_override.py",
        "{voter.key.id}@{voter.endpoints[0]}:",
        "{voter.key.id}@{voter.endpoints[-1]}:",
        "tests/unit/rules/rescue/test_voter_override.py::test_the_list_has_the_endpoint_that_voters_dial_of_several",
        rows="E076",
    ),
    Bug(
        "rules/rescue/voter_override.py",
        "{voter.key.id}@{voter.endpoints[0]}:",
        "{voter.key.id}@{voter.endpoints[0].host}:{voter.endpoints[0].port}:",
        "tests/unit/rules/rescue/test_voter_override.py::test_two_controllers_may_share_a_host_and_ipv6_is_in_brackets",
        rows="E076",
    ),
    Bug(
        "rules/rescue/voter_override.py",
        "for voter in sorted(voters, key=lambda voter: voter.key.id):\n        if not",
        "for voter in voters:\n        if not",
        "tests/unit/rules/rescue/test_voter_override.py::test_the_list_has_the_endpoint_that_voters_dial_of_several",
        rows="E076",
    ),
    Bug(
        "streaming/rescue/rescue_plan.py",
        'what = "endpoints" if same else "VOTERS, not only endpoints"',
        'what = "endpoints"',
        "tests/kips/test_kip_1347_rescue.py::test_nodes_with_different_voters_are_told_from_nodes_with_different_endpoints",
        rows="E079",
    ),
    Bug(
        "streaming/replay/log.py",
        "                image = replace(image, committed=committed)",
        (
            "                image = replace(image, committed=committed if image.committed is None or "
            "image.committed.keys != committed.keys else image.committed)"
        ),
        "tests/kips/test_kip_1347_stale_endpoints.py::test_one_moved_voter_of_three_is_a_warning_until_the_voters_record_has_its_endpoint",
        rows="E090",
    ),
    Bug(
        "rules/checks/stale_voter_endpoint.py",
        "    if election.electable:\n        return Severity.WARNING",
        ("    if sum(bool(each.faults) for each in statuses) < election.majority:\n        return Severity.WARNING"),
        "tests/unit/rules/test_stale_voter_endpoint.py::test_severity_depends_on_the_result_of_an_election_now",
        rows="E091",
    ),
    Bug(
        "rules/checks/stale_voter_endpoint.py",
        'inhibited_by=("no-leader",),',
        'inhibited_by=("no-leader", "committed-metadata-lost"),',
        "tests/kips/test_kip_1347_rescue.py::test_volumes_restored_from_an_old_copy_under_other_names_fire_both_alerts",
        rows="E094",
    ),
    Bug(
        "streaming/replay/log.py",
        "if transaction is not None and not ended.aborted:",
        "if transaction is not None:",
        "tests/unit/streaming/replay/test_log_replay.py::test_a_transaction_is_applied_at_its_end_and_dropped_at_its_abort",
        rows="E096",
    ),
)
