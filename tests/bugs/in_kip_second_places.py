"""Bugs with which a part of what a row states is broken, and which no test noticed at first.

Each of the 340 rows that can be broken was broken once more, in another function or clause than before.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "streaming/status/event_history.py",
        "        kind = EntryKind.FORCED_CHANGE if change.offset in forced else EntryKind.VOTER_CHANGE",
        "        kind = EntryKind.VOTER_CHANGE",
        "tests/unit/streaming/report/test_timeline_entries.py::test_a_change_of_more_than_one_voter_has_its_own_kind",
        rows="A019",
    ),
    Bug(
        "streaming/status/what_if.py",
        "        position = (disk.epoch or Epoch(0), disk.end_offset)",
        "        position = (Epoch(0), disk.end_offset)",
        "tests/cli/test_what_if.py::test_newest_epoch_of_a_log_counts_before_its_end",
        rows="A039",
    ),
    Bug(
        "connectors/kafka/response_limits.py",
        "    Port: 65_535,",
        "    Port: 32_767,",
        "tests/unit/connectors/kafka/test_response_numbers.py::test_largest_numbers_of_kafka_are_accepted",
        rows="C005",
    ),
    Bug(
        "rules/checks/voter_disk_replaced.py",
        "    if same_replica(voter.key, row.key) or liveness(",
        "    if voter.key == row.key or liveness(",
        "tests/unit/rules/test_voter_disk_replaced.py"
        "::test_first_directory_id_of_a_voter_without_one_is_no_replacement",
        rows="C010",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "    if result.error_code == 0:\n        return NodeId(requested)\n",
        "    return NodeId(requested)\n",
        "tests/unit/connectors/kafka/test_response_numbers.py"
        "::test_node_that_refuses_another_id_says_its_own_within_32_bits",
        rows="D028",
    ),
    Bug(
        "connectors/gather/quorum_poll.py",
        "self._nodes.cluster_id = (await query_cluster(self._client, address)).cluster_id",
        "await query_cluster(self._client, address)",
        "tests/unit/connectors/gather/test_quorum_poll.py"
        "::test_a_cluster_whose_id_is_not_configured_is_asked_for_it_once",
        rows="D096",
    ),
    Bug(
        "rules/checks/observer_lagging.py",
        "row, None, Readiness.UNKNOWN, fetching=False)",
        "row, None, Readiness.UNKNOWN, fetching=True)",
        "tests/unit/rules/test_log_rules.py"
        "::test_a_broker_that_the_leader_does_not_list_is_unknown_for_thirty_seconds_and_then_does_not_fetch",
        rows="D142",
    ),
)
