"""Bugs with which what a row of the sample of seed 653 states is plainly broken or absent.

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "rules/rescue/node_decisions.py",
        "    return log.end_offset <= end\n",
        "    return False\n",
        "tests/unit/rules/rescue/test_node_decisions.py::test_action_of_each_node",
        rows="D080",
    ),
    Bug(
        "rules/checks/observer_lagging.py",
        "            yield _not_listed(quorum, poll, broker, thresholds)",
        "            continue",
        "tests/unit/rules/test_log_rules.py"
        "::test_a_broker_that_the_leader_does_not_list_is_unknown_for_thirty_seconds_and_then_does_not_fetch",
        rows="D142",
    ),
    Bug(
        "streaming/rescue/rescue_plan.py",
        "    for one in disks:\n        views.setdefault(",
        "    for one in (each for each in disks if each.is_voter):\n        views.setdefault(",
        "tests/kips/test_kip_1347_rescue.py::test_an_incomplete_override_is_reported_as_different_endpoints",
        rows="E036",
    ),
    Bug(
        "streaming/replay/leadership_state.py",
        "            if event.granting_voter_ids and event.voter_ids and len(votes) < majority(voters):",
        "            elected = len(votes) >= majority(voters) and event.leader_id in event.voter_ids\n"
        "            if event.granting_voter_ids and event.voter_ids and not elected:",
        "tests/unit/streaming/replay/test_election_facts.py"
        "::test_a_vote_of_a_replica_outside_the_voters_beside_a_majority_is_legal",
        rows="K007",
    ),
)
