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
        "case 104:",
        "case -104:",
        "tests/unit/connectors/kafka/test_messages.py::test_errors_unrelated_to_the_leader_are_classified",
        rows="D095",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        'static_voters=tuple(NodeId(int(one["voterId"])) for one in content.get("currentVoters") or ()),',
        "static_voters=(),",
        "tests/unit/connectors/logdir/test_log_dir_files.py::test_quorum_state_version_0_lists_the_voters_of_a_static_quorum",
        rows="E004",
    ),
)
