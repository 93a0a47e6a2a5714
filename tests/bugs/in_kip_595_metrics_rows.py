"""Bugs against what KIP-595 says of DescribeQuorum and of the metrics (rows D084 and later).

`sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "connectors/gather/quorum_poll.py",
        "(self._nodes.leader, self._last_responder)",
        "(self._last_responder, self._nodes.leader)",
        "tests/unit/connectors/gather/test_quorum_poll.py::test_a_leader_that_a_fetch_reports_is_polled_instead_of_the_one_that_answered_last",
        rows="D087",
    ),
    Bug(
        "connectors/gather/quorum_poll.py",
        "failure(ObservationSource.QUORUM, address",
        "failure(ObservationSource.LOG, address",
        "tests/unit/connectors/gather/test_kip_595_reader.py::test_poll_waits_for_its_interval_while_no_controller_leads",
        rows="D089",
    ),
    Bug(
        "rules/checks/stale_voter_endpoint.py",
        "        case EndpointFault.OTHER_RESPONDER:\n            yield reach_step",
        "        case EndpointFault.OTHER_RESPONDER if False:\n            yield reach_step",
        "tests/kips/test_kip_595_metrics.py::test_a_node_of_another_cluster_at_a_voters_endpoint_fires",
        rows="D091",
    ),
    Bug(
        "connectors/kafka/messages.py",
        ('cluster = {} if cluster_id is None else {"cluster_id": cluster_id}\n    return FetchSnapshotRequest'),
        'cluster = {"cluster_id": cluster_id or ""}\n    return FetchSnapshotRequest',
        "tests/kips/test_kip_595_fetch.py::test_a_snapshots_fetch_has_the_leader_epoch_and_the_cluster_id_too",
        rows="D092",
    ),
    Bug(
        "streaming/replay/poll_history.py",
        "if end is not None and acknowledged is not None and end < acknowledged:",
        "if end is not None and acknowledged is not None and end < 0:",
        "tests/unit/streaming/replay/test_log_regression.py::test_log_end_below_committed_records_that_the_voter_had_is_kept_after_it_caught_up",
        rows="D093",
    ),
    Bug(
        "streaming/replay/poll_history.py",
        "name, end = str(row.key), row.log_end_offset",
        "name, end = str(row.key.id), row.log_end_offset",
        "tests/unit/streaming/replay/test_log_regression.py::test_the_log_of_another_directory_of_a_voter_did_not_go_back",
        rows="D093",
    ),
    Bug(
        "connectors/gather/log_follower.py",
        "all(problem.reason in _PERSISTENT",
        "any(problem.reason in _PERSISTENT",
        "tests/unit/connectors/gather/test_kip_595_reader.py::test_a_node_of_another_cluster_does_not_delay_the_search_among_the_others",
        rows="D094",
    ),
    Bug(
        "rules/remedies/remedy_commands.py",
        "describe --status",
        "describe --replication",
        "tests/kips/test_kip_856_gauges.py::test_commands_are_those_of_released_kafka",
        rows="D097",
    ),
    Bug(
        "streaming/status/build_status.py",
        "current_observers=tuple(row.key for row in poll.observers)",
        "current_observers=tuple(row.key for row in poll.voters)",
        "tests/unit/streaming/status/test_status_fields.py::test_values_of_kafka_metadata_quorum_describe_status",
        rows="D097",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "((leaders, role.LEADER), (followers, role.FOLLOWER)",
        "((followers, role.FOLLOWER), (leaders, role.LEADER)",
        "tests/unit/streaming/status/test_status_fields.py::test_replication_rows_of_the_sample_in_kip_595",
        rows="D099",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "last = min(poll.voters, key",
        "last = min((*poll.voters, *poll.observers), key",
        "tests/kips/test_kip_856_gauges.py::test_an_observer_far_behind_is_not_the_maximum",
        rows="D100",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "return lag, lag_ms(poll, last)",
        "return lag, max((lag_ms(poll, row) or Millis(0) for row in poll.voters))",
        "tests/unit/streaming/status/test_status_fields.py::test_the_lag_in_time_is_that_of_the_voter_with_the_shortest_log",
        rows="D101 K018",
    ),
    Bug(
        "streaming/metrics/quorum_metrics.py",
        "lambda sample: sample.status.leader_id if sample.live else None",
        "lambda sample: sample.status.leader_id",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_metrics_of_a_poll_are_absent_without_a_leader",
        rows="D102",
    ),
    Bug(
        "streaming/replay/poll_history.py",
        "        last_leader_epoch=epoch,\n",
        "        last_leader_epoch=poll.leader_epoch,\n",
        "tests/kips/test_kip_595_metrics.py::test_a_log_that_ended_before_an_election_has_the_earlier_epoch",
        rows="D106",
    ),
    Bug(
        "rules/checks/high_watermark_stalled.py",
        "> thresholds.ms(STILL.name) and uncommitted > 0:",
        "> thresholds.ms(STILL.name):",
        "tests/unit/rules/test_active_voters.py::test_one_cause_fires_one_alert",
        rows="D107",
    ),
    Bug(
        "rules/checks/high_watermark_stalled.py",
        "if unchanged_for > thresholds.ms(STILL.name) and uncommitted > 0:",
        "if uncommitted > 0:",
        "tests/unit/rules/test_active_voters.py::test_one_cause_fires_one_alert",
        rows="D107",
    ),
    Bug(
        "streaming/metrics/quorum_metrics.py",
        "{(*node_of(row), row.status.lower()): 1 for row in rows}",
        ('{(*node_of(row), "leader" if row.status.lower() == "leader" else "follower"): 1 for row in rows}'),
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_healthy_quorum_has_every_visible_metric_of_the_kips",
        rows="D108",
    ),
    Bug(
        "streaming/metrics/rates.py",
        "(last - first) * 1000 / (last_ms - first_ms)",
        "(last - first) / (last_ms - first_ms)",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_rates_cover_the_last_minute",
        rows="D112",
    ),
    Bug(
        "streaming/metrics/rates.py",
        "(leader,) = leaders if len(leaders) == 1 else (None,)",
        "leader = self._polls[-1].leader if leaders else None",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_one_poll_or_a_new_leader_or_a_truncated_log_has_no_rate",
        rows="D113",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "lag = leader.log_end_offset - row.log_end_offset",
        "lag = (poll.high_watermark or 0) - row.log_end_offset",
        "tests/kips/test_kip_595_metrics.py::test_leader_epoch_high_watermark_and_lags_come_from_polls_alone",
        rows="D116",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "        self._changed_topic(topic_id).name = name\n",
        (
            "        topic = self._changed_topic(topic_id)\n"
            "        topic.name = name\n"
            "        topic.partitions.clear()\n"
        ),
        "tests/kips/test_kip_595_records.py::test_a_repeated_update_in_the_log_is_accepted",
        rows="D119",
    ),
    Bug(
        "streaming/replay/image.py",
        "        BrokerRegistration,\n        event,\n",
        (
            "        BrokerRegistration,\n"
            "        event,\n"
            "        endpoints=previous.endpoints if previous else event.endpoints,\n"
        ),
        "tests/kips/test_kip_1347_stale_endpoints.py::test_the_newest_registration_of_a_node_counts",
        rows="D131",
    ),
    Bug(
        "streaming/replay/recent_history.py",
        "if len(before.keys ^ after.keys) <= 1:",
        "if len(before.keys ^ after.keys) < 1:",
        "tests/kips/test_kip_595_records.py::test_three_voters_are_replaced_one_by_one",
        rows="D136",
    ),
    Bug(
        "rules/analysis/replica_lag.py",
        "sample.lag_ms is not None and sample.lag_ms <= limit_ms for sample in recent",
        "sample.lag_ms is not None and sample.lag_ms <= limit_ms for sample in recent[-1:]",
        "tests/kips/test_kip_595_metrics.py::test_an_observer_is_ready_if_its_lag_stays_below_the_fetch_timeout",
        rows="D140",
    ),
)
