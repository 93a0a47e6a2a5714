"""Bugs with which what a row of the sample of seed 557 states is plainly broken or absent.

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "connectors/kafka/messages.py",
        "directory_id=_directory(row.replica_directory_id),",
        "directory_id=None,",
        "tests/unit/connectors/kafka/test_messages.py::test_whole_poll_in_every_version",
        rows="A018",
    ),
    Bug(
        "streaming/replay/recent_history.py",
        "    if before is None or {*before.voters} == {*after.voters}:\n        return history",
        "    if before is None:\n        return history",
        "tests/kips/test_kip_595_records.py::test_a_repeated_voters_record_is_no_change_of_the_voters",
        rows="D119",
    ),
)
