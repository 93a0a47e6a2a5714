"""Bugs with which what a row of the sample of seed 523 states is plainly broken or absent.

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "streaming/rescue/rescue_plan.py",
        "    return quorum.committed\n",
        "    return read.contents.voter_sets[0].voters\n",
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
)
