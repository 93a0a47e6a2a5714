"""Bugs in rules/checks and rules/analysis: what is found."""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "rules/checks/node_restarting.py",
        "start.replaced_incarnation_id is not None and start.id in quorum.controllers",
        "start.replaced_incarnation_id is not None",
        "tests/unit/rules/test_node_restarting.py::test_a_controller_that_is_no_longer_registered_restarts_no_more",
    ),
    Bug(
        "rules/checks/node_restarting.py",
        "[one for one in starts if 0 <= last.timestamp_ms - one.timestamp_ms <= window]",
        "[*starts]",
        "tests/unit/rules/test_node_restarting.py::test_only_the_starts_within_the_window_are_counted",
    ),
    Bug(
        "rules/checks/failure_tolerance.py",
        "((max(one.since_ms, begin), 1)",
        "((one.since_ms, 1)",
        "tests/unit/rules/test_active_voters.py::test_of_an_outage_that_began_before_the_window_only_what_is_in_it_counts",
    ),
    Bug(
        "rules/checks/failure_tolerance.py",
        "if all(count < _SEVERAL for",
        "if any(count < _SEVERAL for",
        "tests/unit/rules/test_active_voters.py::test_a_voter_that_failed_once_beside_one_that_fails_again_and_again_changes_nothing",
    ),
    Bug(
        "rules/checks/duplicate_node_id.py",
        "{row.key for row in rows if row.key.directory_id is not None}",
        "{row.key for row in rows}",
        "tests/unit/rules/test_duplicate_node_id.py::test_a_row_without_a_directory_is_no_second_process",
    ),
    Bug(
        "rules/checks/stale_voter_endpoint.py",
        "status.faults == (EndpointFault.NAME_NOT_FOUND,)\n",
        "EndpointFault.NAME_NOT_FOUND in status.faults\n",
        "tests/unit/rules/test_stale_voter_endpoint.py::test_voter_that_does_not_fetch_is_reported_if_more_than_its_name_is_wrong",
    ),
    Bug(
        "rules/checks/stale_voter_endpoint.py",
        "if not endpoints.shared_steps or fault is EndpointFault.CERTIFICATE:",
        "if not endpoints.shared_steps:",
        "tests/unit/rules/test_stale_voter_endpoint.py::test_certificate_is_renewed_also_where_the_name_of_another_voter_is_restored",
    ),
    Bug(
        "rules/checks/stale_voter_endpoint.py",
        "if leader is not None and leader.voter.key.id != node:",
        "if leader is not None:",
        "tests/unit/rules/test_stale_voter_endpoint.py::test_remedy_of_the_leaders_own_endpoint_does_not_ask_for_the_leader",
    ),
    Bug(
        "rules/checks/unclean_election.py",
        "if newest - one.last_timestamp_ms <=",
        "if newest - one.first_timestamp_ms <=",
        "tests/unit/rules/test_unclean_election.py::test_topic_is_reported_for_ten_minutes_after_the_newest_of_its_elections",
    ),
    Bug(
        "rules/checks/unclean_election.py",
        "sum(each.topic_id == one.topic_id for each in quorum.recovering)",
        "len(quorum.recovering)",
        "tests/unit/rules/test_unclean_election.py::test_partitions_of_another_topic_that_recover_are_not_counted",
    ),
    Bug(
        "rules/checks/snapshot_stale.py",
        "return max(elections, default=Millis(0))",
        "return min(elections, default=Millis(0))",
        "tests/unit/rules/test_snapshot_stale.py::test_leader_that_was_elected_several_times_runs_since_the_newest_election",
    ),
    Bug(
        "rules/checks/ghost_registration.py",
        "return max(fetches, default=None)",
        "return next(fetches, None)",
        "tests/unit/rules/test_voter_set_rules.py::test_a_controller_with_a_new_directory_fetched_when_that_one_did",
    ),
    Bug(
        "rules/checks/ghost_registration.py",
        "for sample in reversed(history.samples)",
        "for sample in history.samples",
        "tests/unit/rules/test_voter_set_rules.py::test_a_controller_fetched_last_as_the_newest_poll_says",
    ),
    Bug(
        "rules/checks/high_watermark_stalled.py",
        "        or (poll.leader_id,),\n",
        "        or (),\n",
        "tests/unit/rules/test_active_voters.py::test_where_every_voter_is_in_sync_the_leader_is_what_the_remedy_restarts",
    ),
    Bug(
        "rules/checks/monitor_blind.py",
        "if each.source in stale_sources and (unreachable",
        "if (unreachable",
        "tests/unit/rules/test_observability_rules.py::test_only_failures_of_what_is_not_observed_are_named",
    ),
    Bug(
        "rules/checks/monitor_blind.py",
        "(each.first_at_ms, each.source, each.endpoint)",
        "(each.last_at_ms, each.source, each.endpoint)",
        "tests/unit/rules/test_observability_rules.py::test_the_failure_that_began_first_is_named_first",
    ),
    Bug(
        "rules/checks/monitor_blind.py",
        "(each for each in quorum.failures if each.last_at_ms >= quorum.watched_since_ms)",
        "quorum.failures",
        "tests/unit/rules/test_observability_rules.py::test_attempts_before_a_gap_do_not_count_after_it",
    ),
    Bug(
        "rules/analysis/leadership.py",
        "(view.leader_epoch, view.leader_id) == (epoch, leader) and view.this_cluster",
        "(view.leader_epoch, view.leader_id) == (epoch, leader)",
        "tests/unit/rules/test_observability_rules.py::test_followers_that_could_not_have_elected_another_leader_are_not_enough",
    ),
    Bug(
        "rules/analysis/leadership.py",
        "return max(_leader_answers_ms(quorum), default=None)",
        "return min(_leader_answers_ms(quorum), default=None)",
        "tests/unit/rules/analysis/test_leaderless_evidence.py::test_the_last_answer_of_a_leader_is_the_newest_of_a_fetch_and_a_poll",
    ),
    Bug(
        "rules/analysis/leadership.py",
        "[each for each in quorum.failures if quorum.now_ms - each.last_at_ms <= _UNREACHABLE_MS]",
        "quorum.failures",
        "tests/unit/rules/analysis/test_leaderless_evidence.py::test_a_leader_counts_as_not_reached_for_a_minute",
    ),
    Bug(
        "rules/analysis/silent_controllers.py",
        "if each.this_cluster} - views.keys()",
        "if each.this_cluster}",
        "tests/unit/rules/test_observability_rules.py::test_one_of_several_controllers_that_does_not_answer_is_a_warning",
    ),
    Bug(
        "rules/analysis/silent_controllers.py",
        "for each in fresh_views(quorum, thresholds) if each.this_cluster}",
        "for each in fresh_views(quorum, thresholds)}",
        "tests/unit/rules/test_observability_rules.py::test_one_of_several_controllers_that_does_not_answer_is_a_warning",
    ),
    Bug(
        "rules/analysis/silent_controllers.py",
        "view.reason not in NO_LEADER_REASONS and viewed & voters.keys():",
        "view.reason not in NO_LEADER_REASONS and viewed:",
        "tests/unit/rules/test_observability_rules.py::test_one_of_several_controllers_that_does_not_answer_is_a_warning",
    ),
    Bug(
        "rules/analysis/freshness.py",
        " <= age_ms and observed_at_ms >= quorum.watched_since_ms",
        " <= age_ms",
        "tests/unit/rules/analysis/test_freshness.py::test_what_was_observed_before_a_gap_is_not_fresh_after_it",
    ),
    Bug(
        "rules/analysis/freshness.py",
        "fresh = [view for view in within if view.observed_at_ms >= quorum.watched_since_ms]",
        "fresh = within",
        "tests/unit/rules/analysis/test_freshness.py::test_what_was_observed_before_a_gap_is_not_fresh_after_it",
    ),
    Bug(
        "rules/analysis/replica_lag.py",
        "(key.directory_id == other.directory_id or not known)",
        "key.directory_id == other.directory_id",
        "tests/unit/rules/analysis/test_last_fetch.py::test_a_replica_whose_directory_is_not_known_may_be_that_of_any_directory_of_its_node",
    ),
    Bug(
        "rules/analysis/voter_status.py",
        " if one.leader_epoch == poll.leader_epoch), None)",
        "), None)",
        "tests/unit/rules/test_active_voters.py::test_the_election_since_which_a_leader_leads_is_that_of_its_epoch",
    ),
    Bug(
        "rules/analysis/endpoint_status.py",
        "return poll.observed_at_ms - age > probe",
        "return poll.observed_at_ms > probe",
        "tests/unit/rules/analysis/test_endpoint_status.py::test_voter_that_fetched_before_the_refusal_and_not_since_may_be_down",
    ),
)
