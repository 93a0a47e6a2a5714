"""Bugs against the plain statement of a row of the sample of seed 347, in any of the KIPs.

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "streaming/metrics/rates.py",
        "needed = majority(len(voters))",
        "needed = status.votes_needed or majority(len(voters))",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_commit_waits_for_the_voter_that_completes_the_majority",
        rows="A011",
    ),
    Bug(
        "rules/checks/stale_voter_endpoint.py",
        "return next((status for status in self.statuses if status.voter.key.id == leader), None)",
        "return next(status for status in self.statuses if status.voter.key.id == leader)",
        "tests/kips/test_kip_1347_stale_endpoints.py::test_a_moved_voter_is_reported_also_while_the_leader_is_outside_the_voters",
        rows="A028",
    ),
    Bug(
        "streaming/replay/leadership_state.py",
        ("        self.leaderless_reports.clear()\n        self.advance(high_watermark, now_ms)\n\n    def advance"),
        (
            "        self.leaderless_reports.clear()\n"
            "        self.high_watermark = high_watermark or self.high_watermark\n"
            "\n"
            "    def advance"
        ),
        "tests/unit/streaming/replay/test_leadership_state.py::test_a_lower_answer_to_a_fetch_of_the_log_does_not_count_alone",
        rows="A041",
    ),
    Bug(
        "streaming/replay/partitions.py",
        (
            "            elr=event.elr,\n"
            "            last_known_elr=event.last_known_elr,\n"
            "            leader=event.leader,\n"
            "            leader_epoch="
        ),
        (
            "            elr=(),\n"
            "            last_known_elr=event.last_known_elr,\n"
            "            leader=event.leader,\n"
            "            leader_epoch="
        ),
        "tests/unit/streaming/replay/test_log_scenarios.py::test_what_changes_with_each_observation",
        rows="B016",
    ),
    Bug(
        "streaming/replay/recovery_change.py",
        "isr, elr = union(isr, before.isr), union(elr or (), eligible(before))",
        "isr, elr = union(isr, before.isr), elr",
        "tests/unit/streaming/replay/test_log_scenarios.py::test_what_changes_with_each_observation",
        rows="B039",
    ),
    Bug(
        "rules/analysis/replica_lag.py",
        "SLOW_FETCH_MS = Millis(60_000)",
        "SLOW_FETCH_MS = Millis(600_000)",
        "tests/unit/rules/test_active_voters.py::test_a_voter_that_lagged_at_its_last_fetch_still_fetches_for_a_minute",
        rows="D008",
    ),
    Bug(
        "connectors/metadata/dump_log.py",
        "(self.control_records if type_ in _CONTROL else self.records)[type_] += 1",
        "self.records[type_] += 1",
        "tests/unit/connectors/metadata/test_dump_log.py::test_files_written_by_kafka_are_dumped_completely",
        rows="D018",
    ),
    Bug(
        "rules/analysis/endpoint_status.py",
        'return "another node" if probe.answered_by is None else f"node {probe.answered_by}"',
        'return f"node {probe.answered_by}" if probe.answered_by else "another node"',
        "tests/kips/test_kip_595_other_rows.py::test_a_voters_endpoint_answered_by_another_cluster_or_node_fires",
        rows="D028",
    ),
    Bug(
        "streaming/status/build_status.py",
        ("if poll is None or one.source is not ObservationSource.QUORUM or one.last_at_ms > poll.observed_at_ms"),
        "if poll is None or one.last_at_ms > poll.observed_at_ms",
        "tests/unit/streaming/status/test_status_fields.py::test_failed_fetch_before_the_newest_poll_is_listed",
        rows="D089",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "last = min(poll.voters, key=",
        "last = min((*poll.voters, *poll.observers), key=",
        "tests/kips/test_kip_856_gauges.py::test_an_observer_far_behind_is_not_the_maximum",
        rows="D098",
    ),
    Bug(
        "streaming/metrics/rates.py",
        "(first_ms, first), (last_ms, last) = known[0], known[-1]",
        "(first_ms, first), (last_ms, last) = known[-2], known[-1]",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_rates_cover_the_last_minute",
        rows="D112",
    ),
    Bug(
        "streaming/metrics/rates.py",
        "return (sum(took) / len(took) / 1000, max(took) / 1000)",
        "return (sum(took) / len(took) / 1000, took[-1] / 1000)",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_election_lasts_from_the_last_record_before_it",
        rows="D125",
    ),
    Bug(
        "streaming/rescue/plan_output.py",
        "given = [one for one in plan.disks if not one.is_voter]",
        "given = [one for one in plan.disks if not one.is_voter][:1]",
        "tests/kips/test_kip_1347_brokers_and_views.py::test_a_broker_holds_the_old_endpoints_until_the_override_is_applied_to_its_disk_too",
        rows="E038",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        'version = int(content["data_version"])',
        'version = int(content.get("data_version", 0))',
        "tests/unit/connectors/logdir/test_log_dir_files.py::test_a_missing_or_invalid_quorum_state_is_reported",
        rows="K002",
    ),
    Bug(
        "rules/checks/raft_invariant_broken.py",
        "    newest = broken[-1]\n",
        "    newest = broken[0]\n",
        "tests/unit/rules/test_raft_invariant_broken.py::test_several_violations_of_one_invariant_are_one_finding",
        rows="K042",
    ),
)
