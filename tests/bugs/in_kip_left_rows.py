"""Bugs with which what a row states is plainly broken or absent: rows that none of the seeds 491, 523 and 557 drew.

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "connectors/logdir/log_dir_reader.py",
        "found = [*_of_snapshots(files.snapshots), *_of_segments(files.segments)]",
        "found = [*_of_snapshots(files.snapshots)]",
        "tests/unit/connectors/logdir/test_log_dir_files.py::test_recorded_voter_sets_of_the_log_and_of_the_snapshots",
        rows="A058",
    ),
    Bug(
        "rules/remedies/remedy_commands.py",
        'return ("# Wait until the pending change of the voter set is committed or dropped",) if pending else ()',
        "return () if pending else ()",
        "tests/kips/test_kip_856_voter_changes.py::test_while_a_change_is_pending_every_remedy_says_to_start_no_other",
        rows="A076",
    ),
    Bug(
        "rules/checks/epoch_churn.py",
        "if skipped * thresholds.ms(ELECTION_TIME.name) > one.after_ms:",
        "if skipped:",
        "tests/unit/rules/test_log_rules.py::test_jump_is_more_epochs_than_elections_fit_into_the_time_before",
        rows="D009",
    ),
)
