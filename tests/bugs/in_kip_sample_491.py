"""Bugs with which what a row of the sample of seed 491 states is plainly broken or absent.

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "rules/checks/epoch_churn.py",
        "return 0 if one.previous_epoch is None else one.leader_epoch - one.previous_epoch - 1",
        "return 0",
        "tests/kips/test_kip_595_observed_elections.py::test_epochs_of_elections_that_wait_are_lost_elections_and_others_are_a_jump",
        rows="D041",
    ),
    Bug(
        "connectors/kafka/error_classification.py",
        "104: (Reason",
        "-104: (Reason",
        "tests/unit/connectors/kafka/test_messages.py::test_errors_unrelated_to_the_leader_are_classified",
        rows="D095",
    ),
    Bug(
        "connectors/kafka/error_classification.py",
        "104: (Reason",
        "1040: (Reason",
        "tests/unit/connectors/gather/test_kip_595_reader.py::test_a_node_of_another_cluster_does_not_delay_the_search_among_the_others",
        rows="D094",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        'static_voters=tuple(NodeId(int(one["voterId"])) for one in content.get("currentVoters") or ()),',
        "static_voters=(),",
        "tests/unit/connectors/logdir/test_log_dir_files.py::test_quorum_state_version_0_lists_the_voters_of_a_static_quorum",
        rows="E004",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "latest, committed = {row.key for row in quorum.poll.voters}, quorum.committed.keys",
        "latest, committed = quorum.committed.keys, quorum.committed.keys",
        "tests/kips/test_kip_856_gauges.py::test_the_latest_and_the_committed_voter_set_are_distinguished",
        rows="A022",
    ),
    Bug(
        "rules/remedies/remedy_commands.py",
        "controller.quorum.request.timeout.ms (2 s) is given up and repeated",
        "usual is slow",
        "tests/unit/rules/test_voter_set_rules.py::test_the_remedy_of_a_pending_change_is_to_bring_the_voters_of_the_new_set_in_sync",
        rows="D011",
    ),
    Bug(
        "connectors/logdir/complete_log.py",
        "        self._epoch_ends[Epoch(batch.leader_epoch)] = Offset(batch.last_offset + 1)\n",
        "        pass\n",
        "tests/unit/connectors/logdir/test_complete_log.py::test_a_log_has_the_end_of_each_of_its_epochs",
        rows="D075",
    ),
)
