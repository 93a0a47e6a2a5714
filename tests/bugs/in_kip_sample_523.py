"""Bugs with which what a row of the sample of seed 523 states is plainly broken or absent.

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "streaming/rescue/rescue_plan.py",
        "    return quorum.committed\n",
        "    return read.voter_sets[0].voters\n",
        "tests/kips/test_kip_856_votes.py::test_a_rescue_is_planned_with_the_newest_voters_of_a_disk_though_it_does_not_show_that_they_are_committed",
        rows="A045",
    ),
    Bug(
        "streaming/rescue/rescue_plan.py",
        "sorted(one.difference.lost_listeners.items()) if one.difference else ()",
        "()",
        "tests/kips/test_kip_1347_brokers_and_views.py::test_the_dry_run_warns_of_each_voter_that_would_lose_its_other_listeners",
        rows="E041",
    ),
    Bug(
        "streaming/rescue/plan_output.py",
        "        yield _command(by_key[key], provided)\n",
        "",
        "tests/kips/test_kip_1347_rescue.py::test_the_steps_stop_all_controllers_and_then_change_controllers_before_brokers",
        rows="E075",
    ),
    Bug(
        "rules/analysis/replica_lag.py",
        "return age is not None and age <= SLOW_FETCH_MS and (lag is None or lag - age > limit_ms)",
        "return False",
        "tests/unit/rules/test_active_voters.py::test_voter_that_lagged_when_it_last_fetched_fetches_slowly",
        rows="D011",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        "leader_id=None if leader == _NO_NODE else NodeId(leader),",
        "leader_id=NodeId(leader),",
        "tests/unit/streaming/status/test_from_log_dir.py::test_the_current_vote_of_the_disk_is_shown",
        rows="D021",
    ),
    Bug(
        "streaming/replay/poll_history.py",
        "if end is not None and acknowledged is not None and end < acknowledged:",
        "if False:",
        "tests/unit/streaming/replay/test_log_regression.py::test_log_end_below_committed_records_that_the_voter_had_is_kept_after_it_caught_up",
        rows="E094",
    ),
    Bug(
        "streaming/status/build_status.py",
        "current_observers=tuple(row.key for row in poll.observers) if poll else (),",
        "current_observers=tuple(row.key for row in (*poll.voters, *poll.observers)) if poll else (),",
        "tests/kips/test_kip_856_disk_replaced.py::test_three_voters_and_no_observer_are_healthy",
        rows="A047",
    ),
    Bug(
        "streaming/metrics/rates.py",
        "return lag_times_ms[needed - 1] if voters and len(lag_times_ms) >= needed else None",
        "return 0 if voters and len(lag_times_ms) >= needed else None",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_commit_waits_for_the_voter_that_completes_the_majority",
        rows="D026",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "last_fetched_epoch=last_epoch,",
        "last_fetched_epoch=-1,",
        "tests/unit/connectors/gather/test_kip_595_reader.py::test_former_leader_reports_the_new_one_and_fetching_resumes_there_at_the_same_offset",
        rows="D072",
    ),
    Bug(
        "rules/analysis/restart_election.py",
        '"its log is ahead"\n    return None\n',
        '"its log is ahead"\n    return None if now.key in now.voters.keys else "by its own log it is no voter"\n',
        "tests/kips/test_kip_856_votes.py::test_an_addition_on_some_disks_needs_the_vote_of_a_voter_without_the_record",
        rows="A038",
    ),
    Bug(
        "rules/analysis/restart_election.py",
        '    if now.key != voter.key:\n        return "its disk was replaced"\n',
        "",
        "tests/kips/test_kip_856_votes.py::test_a_replica_with_another_directory_id_has_no_vote_of_the_voter_with_its_id",
        rows="A088",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "the zero UUID as None.\n    if value is None:\n        return None\n",
        'the zero UUID as None.\n    if value is None:\n        return DirectoryId("A" * 22)\n',
        "tests/unit/connectors/kafka/test_messages.py::test_minus_one_and_zero_uuid_of_a_poll_are_none",
        rows="A111",
    ),
)
