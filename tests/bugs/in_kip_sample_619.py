"""Bugs with which what a row of the sample of seed 619 states is plainly broken or absent.

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "connectors/metadata/record_to_event.py",
        'key=ReplicaKey(id=node, directory_id=voter["voter_directory_id"]),',
        "key=ReplicaKey(id=node, directory_id=None),",
        "tests/kips/test_kip_856_names.py::test_directory_id_voter_directory_id_and_voted_directory_id_name_one_replica",
        rows="A008",
    ),
    Bug(
        "streaming/replay/recent_history.py",
        "    return replace(history, elections=_bounded(history.elections, one))\n",
        "    return history\n",
        "tests/kips/test_kip_595_observed_elections.py::test_an_election_alerts_only_if_candidates_stand_again_and_again",
        rows="A029",
    ),
    Bug(
        "streaming/replay/quorum_builder.py",
        "        high_watermark=leadership.high_watermark,\n",
        "        high_watermark=None,\n",
        "tests/kips/test_kip_595_metrics.py::test_leader_epoch_high_watermark_and_lags_come_from_polls_alone",
        rows="A040",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "    latest, committed = {row.key for row in quorum.poll.voters}, quorum.committed.keys\n",
        "    latest = committed = quorum.committed.keys\n",
        "tests/kips/test_kip_595_metrics.py::test_a_removal_that_timed_out_and_succeeded_is_in_the_log",
        rows="A045",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "        topics=[topic],\n        min_version=12,\n",
        "        topics=[],\n        min_version=12,\n",
        "tests/unit/connectors/kafka/test_messages.py::test_whole_fetch_in_every_version",
        rows="D029",
    ),
    Bug(
        "rules/checks/epoch_churn.py",
        "    if elections and len(elections) - count >= thresholds[ELECTIONS.name]:\n",
        "    if False:\n",
        "tests/unit/rules/test_log_rules.py::test_elections_that_no_restart_explains_are_churn",
        rows="D041",
    ),
    Bug(
        "streaming/replay/poll_history.py",
        "            observers=event.observers,\n",
        "            observers=(\n"
        "                *event.observers,\n"
        "                *(\n"
        "                    row\n"
        "                    for row in (() if self.newest is None else self.newest.observers)\n"
        "                    if row.key not in {each.key for each in (*event.voters, *event.observers)}\n"
        "                ),\n"
        "            ),\n",
        "tests/kips/test_kip_595_metrics.py::test_an_observer_that_a_poll_no_longer_lists_is_gone",
        rows="D142",
    ),
)
