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
    Bug(
        "connectors/kafka/messages.py",
        'cluster = {} if cluster_id is None else {"cluster_id": cluster_id}\n    return LogFetchRequest(',
        "cluster: dict[str, str] = {}\n    return LogFetchRequest(",
        "tests/unit/connectors/kafka/test_messages.py::test_whole_fetch_in_every_version",
        rows="D095",
    ),
    Bug(
        "streaming/rescue/plan_output.py",
        '    yield f"# Brokers{known} hold the old voters and connect to them, '
        'whatever their configuration says: stop each"\n',
        "",
        "tests/kips/test_kip_1347_rescue.py::test_the_steps_stop_all_controllers_and_then_change_controllers_before_brokers",
        rows="E036",
    ),
    Bug(
        "streaming/rescue/plan_output.py",
        """        yield 'mv "$METADATA_LOG_DIR/__cluster_metadata-0" "$METADATA_LOG_DIR.metadata-before-rescue"'\n""",
        "",
        "tests/kips/test_kip_1347_brokers_and_views.py::test_broker_whose_disk_is_not_given_is_not_written_to",
        rows="E070",
    ),
)
