"""Bugs against the plain statement of a row of KIP-595 (rows D).

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "connectors/kafka/messages.py",
        (
            "if topic.topic_id == TOPIC_ID or topic.topic == TOPIC\n"
            "            for each in topic.partitions\n"
            "            if each.partition_index == 0"
        ),
        "if topic.topic_id == TOPIC_ID or topic.topic == TOPIC\n            for each in topic.partitions[-1:]",
        "tests/kips/test_kip_595_other_rows.py::test_the_metadata_partition_is_selected_from_several_partitions",
        rows="D004",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "topic = FetchSnapshotRequest.TopicSnapshot(name=TOPIC, partitions=[partition])",
        'topic = FetchSnapshotRequest.TopicSnapshot(name="", partitions=[partition])',
        "tests/kips/test_kip_595_fetch.py::test_a_snapshots_fetch_has_the_leader_epoch_and_the_cluster_id_too",
        rows="D004",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        'PARTITION = "__cluster_metadata-0"',
        'PARTITION = "__cluster_metadata-1"',
        "tests/kips/test_kip_856_names.py::test_meta_properties_identify_a_metadata_log_dir",
        rows="D004",
    ),
    Bug(
        "rules/analysis/freshness.py",
        '    name="answer_age",\n    default=10.0',
        '    name="answer_age",\n    default=1.0',
        "tests/kips/test_thresholds.py::test_holds_are_longer_than_kafkas_own_timers",
        rows="D012",
    ),
    Bug(
        "connectors/kafka/messages.py",
        'NodeEndpoints(id=known(NodeId, row.node_id, "DescribeQuorum: node_id")',
        "NodeEndpoints(id=NodeId(row.node_id + 1)",
        "tests/kips/test_kip_853_voter_endpoints.py::test_a_poll_has_every_listener_of_a_node",
        rows="D014",
    ),
    Bug(
        "connectors/metadata/record_to_event.py",
        'ids = valid_nodes("voter id", [voter["voter_id"] for voter in listed])',
        'ids = valid_nodes("voter id", sorted(voter["voter_id"] for voter in listed))',
        "tests/kips/test_kip_595_records.py::test_the_voters_are_in_the_fetched_records",
        rows="D014",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        'leader, voted = int(content["leaderId"]), int(content["votedId"])',
        'leader, voted = int(content["leaderId"]), int(content.get("votedId", -1)) or -1',
        "tests/kips/test_kip_856_names.py::test_the_leader_and_the_vote_of_a_quorum_state_are_not_confused",
        rows="D020 K002",
    ),
    Bug(
        "connectors/kafka/messages.py",
        '    leader = optional(NodeId, partition.leader_id, "DescribeQuorum: leader_id")\n    if leader is None:',
        '    leader = optional(NodeId, partition.leader_id, "DescribeQuorum: leader_id")\n    if not leader:',
        "tests/unit/connectors/kafka/test_messages.py::test_poll_without_a_leader_is_classified",
        rows="D021",
    ),
    Bug(
        "connectors/metadata/batches.py",
        "    if batch.leader_epoch < 0:\n",
        "    if batch.leader_epoch < 0 and not batch.is_control:\n",
        "tests/kips/test_invariants_of_the_texts.py::test_epochs_start_at_0_and_are_never_negative",
        rows="D022",
    ),
    Bug(
        "connectors/metadata/decoder.py",
        'epoch = _observed(events, "leader epoch", leader_epoch, 0, LARGEST_INT32)',
        'epoch = _observed(events, "leader epoch", leader_epoch, -1, LARGEST_INT32)',
        "tests/kips/test_invariants_of_the_texts.py::test_epochs_start_at_0_and_are_never_negative",
        rows="D022",
    ),
    Bug(
        "streaming/status/status_tables.py",
        "    if state.voted_id is not None:\n",
        "    if state.voted_id:\n",
        "tests/kips/test_kip_595_observed_elections.py::test_the_vote_on_a_disk_is_shown_with_its_epoch",
        rows="D023",
    ),
    Bug(
        "rules/analysis/endpoint_status.py",
        "            other = probe.answered_by is not None and probe.answered_by != probe.node\n            return",
        "            other = probe.answered_by is not None and probe.answered_by > probe.node\n            return",
        "tests/kips/test_kip_595_other_rows.py::test_a_voters_endpoint_answered_by_another_cluster_or_node_fires",
        rows="D028",
    ),
    Bug(
        "connectors/gather/log_follower.py",
        "                self._drop_leader(leader)\n            except UndecodableError",
        (
            "                self._buffer.restart(START)\n"
            "                self._drop_leader(leader)\n"
            "            except UndecodableError"
        ),
        "tests/unit/connectors/gather/test_kip_595_reader.py::test_after_an_offset_out_of_range_no_record_is_read_again",
        rows="D037",
    ),
    Bug(
        "rules/checks/failure_tolerance.py",
        "    if missing and spare <= 0:\n        finding",
        "    if spare <= 0:\n        finding",
        "tests/kips/test_kip_595_observed_elections.py::test_a_single_voter_needs_no_fetches",
        rows="D044",
    ),
    Bug(
        "rules/rescue/node_decisions.py",
        "        return (self.epoch, self.end_offset)",
        "        return (Epoch(self.end_offset), Offset(self.epoch))",
        "tests/kips/test_kip_856_votes.py::test_a_longer_log_of_an_earlier_epoch_is_behind_on_disks_and_after_a_restart",
        rows="D049",
    ),
    Bug(
        "rules/analysis/restart_election.py",
        "now.position > candidate.position:",
        "now.position[1] > candidate.position[1]:",
        "tests/kips/test_kip_856_votes.py::test_a_longer_log_of_an_earlier_epoch_is_behind_on_disks_and_after_a_restart",
        rows="D049",
    ),
    Bug(
        "streaming/replay/leadership_state.py",
        "    def _two_leaders(self, known: NodeId, leader: NodeId, epoch: Epoch, now_ms: Millis) -> None:\n",
        (
            "    def _two_leaders(self, known: NodeId, leader: NodeId, epoch: Epoch, now_ms: Millis) -> "
            "None:\n"
            "        if self.epoch is not None and epoch < self.epoch:\n"
            "            return\n"
        ),
        "tests/kips/test_invariants_of_the_texts.py::test_two_controllers_that_answer_as_leaders_of_one_epoch_are_critical",
        rows="D052 K043",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "        last_fetch_timestamp_ms=row.last_fetch_ms,",
        "        last_fetch_timestamp_ms=row.last_fetch_ms or 0,",
        "tests/kips/test_kip_595_metrics.py::test_all_fields_of_the_admin_api_are_reported_and_unknown_is_null",
        rows="D058",
    ),
    Bug(
        "rules/analysis/voter_status.py",
        '            return "" if lags else f" from leader {self.leader_id} yet"',
        '            return ""',
        "tests/kips/test_kip_856_gauges.py::test_a_voter_that_did_not_fetch_from_a_new_leader_is_inactive_unless_it_was_active_before",
        rows="D058",
    ),
    Bug(
        "rules/checks/epoch_churn.py",
        "before = [one for one in history.elections if one.offset < start.offset]",
        "before = [one for one in history.elections]",
        "tests/unit/rules/test_log_rules.py::test_a_start_before_the_elections_explains_none",
        rows="D060",
    ),
    Bug(
        "connectors/gather/node_directory.py",
        "        return response.leader or self.address_of(NodeId(response.leader_id))",
        "        return self.address_of(NodeId(response.leader_id)) or response.leader",
        "tests/unit/connectors/gather/test_node_directory.py::test_a_moved_node_is_contacted_where_the_newest_poll_else_its_registration_says",
        rows="D066",
    ),
    Bug(
        "connectors/gather/log_follower.py",
        "            last_epoch=position.epoch,",
        "            last_epoch=self._nodes.leader_epoch,",
        "tests/unit/connectors/gather/test_kip_595_reader.py::test_former_leader_reports_the_new_one_and_fetching_resumes_there_at_the_same_offset",
        rows="D067",
    ),
    Bug(
        "connectors/gather/log_follower.py",
        (
            "            cluster_id=self._nodes.cluster_id,\n"
            "            leader_epoch=self._nodes.leader_epoch,\n"
            "            offset="
        ),
        ("            cluster_id=None,\n            leader_epoch=self._nodes.leader_epoch,\n            offset="),
        "tests/unit/connectors/gather/test_kip_595_reader.py::test_former_leader_reports_the_new_one_and_fetching_resumes_there_at_the_same_offset",
        rows="D067",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "        max_wait_ms=max_wait_ms,\n        min_bytes=1,",
        "        max_wait_ms=0,\n        min_bytes=1,",
        "tests/unit/connectors/kafka/test_messages.py::test_whole_fetch_in_every_version",
        rows="D068",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "        min_bytes=1,\n",
        "        min_bytes=0,\n",
        "tests/unit/connectors/kafka/test_messages.py::test_whole_fetch_in_every_version",
        rows="D068",
    ),
    Bug(
        "connectors/kafka/messages.py",
        ("SnapshotId(end_offset=end_offset, epoch=end_epoch)\n\n\ndef _address"),
        ("SnapshotId(end_offset=end_offset, epoch=max(end_epoch, 0)) if end_offset else None\n\n\ndef _address"),
        "tests/kips/test_kip_595_fetch.py::test_the_tagged_fields_of_a_fetch_response",
        rows="D069",
    ),
    Bug(
        "connectors/gather/commit_buffer.py",
        "if response.diverging is not None and self.next_offset == 0:",
        "if response.diverging is not None and self.committed_end == 0:",
        "tests/kips/test_kip_595_fetch.py::test_a_diverging_response_truncates_what_was_read_and_not_committed",
        rows="D072",
    ),
    Bug(
        "connectors/gather/commit_buffer.py",
        ("        if self._uncommitted:\n            self._drop_uncommitted()\n            return AcceptResult()"),
        ("        if self._uncommitted:\n            self._uncommitted.pop()\n            return AcceptResult()"),
        "tests/kips/test_kip_595_fetch.py::test_a_diverging_response_truncates_what_was_read_and_not_committed",
        rows="D073 D079",
    ),
    Bug(
        "connectors/gather/commit_buffer.py",
        "        high_watermark = -1 if response.high_watermark is None else response.high_watermark",
        "        high_watermark = self.next_offset if response.high_watermark is None else response.high_watermark",
        "tests/kips/test_kip_595_observed_commits.py::test_records_that_a_majority_does_not_have_yet_are_not_replayed",
        rows="D074",
    ),
    Bug(
        "connectors/gather/log_follower.py",
        "START = FetchPosition(offset=0, epoch=0)",
        "START = FetchPosition(offset=0, epoch=1)",
        "tests/unit/connectors/gather/test_kip_595_reader.py::test_log_follower_without_a_position_fetches_from_offset_0",
        rows="D081",
    ),
    Bug(
        "rules/checks/no_leader.py",
        "        severity=Severity.CRITICAL,\n        summary=_summary",
        "        severity=Severity.WARNING,\n        summary=_summary",
        "tests/kips/test_thresholds.py::test_no_leader_fires_after_an_election_and_its_backoff",
        rows="D088",
    ),
    Bug(
        "connectors/gather/log_follower.py",
        (
            "            cluster_id=self._nodes.cluster_id,\n"
            "            leader_epoch=self._nodes.leader_epoch,\n"
            "            offset="
        ),
        (
            '            cluster_id=self._nodes.cluster_id or "unknown",\n'
            "            leader_epoch=self._nodes.leader_epoch,\n"
            "            offset="
        ),
        "tests/unit/connectors/gather/test_kip_595_reader.py::test_all_controllers_are_queried_about_once_a_second_until_one_leads",
        rows="D092",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "    return lag, lag_ms(poll, last)\n",
        "    return lag, max((lag_ms(poll, row) or Millis(0) for row in poll.voters), default=None)\n",
        "tests/unit/streaming/status/test_status_fields.py::test_the_lag_in_time_is_that_of_the_voter_with_the_shortest_log",
        rows="D098",
    ),
    Bug(
        "streaming/status/status_tables.py",
        '    yield "High watermark", or_unknown(status.high_watermark)',
        '    yield "High watermark", or_unknown(status.last_offset)',
        "tests/unit/streaming/status/test_status_tables.py::test_the_sample_in_kip_595_is_printed_with_its_numbers",
        rows="D098",
    ),
    Bug(
        "streaming/status/status_tables.py",
        (
            "lag_text = None if lag is None else f\"{plural(lag, 'record')}, "
            '{duration_text(status.max_follower_lag_time_ms)}"'
        ),
        "lag_text = None if lag is None else plural(lag, 'record')",
        "tests/unit/streaming/status/test_status_tables.py::test_the_sample_in_kip_595_is_printed_with_its_numbers",
        rows="D098",
    ),
    Bug(
        "streaming/status/status_tables.py",
        "lag_time = duration_text(row.lag_time_ms)",
        "lag_time = duration_text(row.fetch_age_ms)",
        "tests/unit/streaming/status/test_status_tables.py::test_the_sample_in_kip_595_is_printed_with_its_numbers",
        rows="D099",
    ),
    Bug(
        "streaming/metrics/quorum_metrics.py",
        "of_replicas(lambda row: row.log_end_epoch),",
        "of_replicas(lambda row: row.log_end_epoch if row.lag == 0 else None),",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_a_flat_high_watermark_and_the_growing_log_of_the_leader_are_exported",
        rows="D106",
    ),
    Bug(
        "streaming/metrics/quorum_metrics.py",
        "value(lambda status: status.high_watermark)",
        "value(lambda status: status.last_offset and status.last_offset + 1)",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_a_flat_high_watermark_and_the_growing_log_of_the_leader_are_exported",
        rows="D107",
    ),
    Bug(
        "streaming/metrics/quorum_metrics.py",
        "of_replicas(lambda row: row.log_end_offset),",
        "of_replicas(lambda row: row.log_end_offset and row.log_end_offset - (row.lag or 0)),",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_a_flat_high_watermark_and_the_growing_log_of_the_leader_are_exported",
        rows="D107",
    ),
    Bug(
        "streaming/replay/leadership_state.py",
        (
            "            self.high_watermark, self.high_watermark_since_ms = high_watermark, now_ms\n"
            "        if known is None or high_watermark >= known:"
        ),
        (
            "            self.high_watermark, self.high_watermark_since_ms = high_watermark, now_ms\n"
            "        elif high_watermark == known:\n"
            "            self.high_watermark_since_ms = now_ms\n"
            "        if known is None or high_watermark >= known:"
        ),
        "tests/kips/test_kip_595_observed_elections.py::test_a_leader_that_does_not_resign_without_its_majority_fires",
        rows="D107",
    ),
    Bug(
        "streaming/metrics/rates.py",
        "return (sum(waits) / len(waits) / 1000,",
        "return (sum(waits) / len(self._polls) / 1000,",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_commit_waits_for_the_voter_that_completes_the_majority",
        rows="D111",
    ),
    Bug(
        "streaming/metrics/rates.py",
        "return None if last < first else (last - first) * 1000 / (last_ms - first_ms)",
        "return None if last < first else (last - first) * 1000 / WINDOW_MS",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_rates_cover_the_last_minute",
        rows="D116",
    ),
    Bug(
        "streaming/metrics/rates.py",
        "for row in rows if row.status is ReplicaRole.LEADER",
        "for row in rows if row.lag == 0",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_rates_cover_the_last_minute",
        rows="D116",
    ),
    Bug(
        "streaming/replay/recent_history.py",
        "        after_ms=None if previous_ms is None else Millis(max(0, at.timestamp_ms - previous_ms)),",
        "        after_ms=None,",
        "tests/kips/test_kip_595_metrics.py::test_elections_and_the_append_rate_come_from_the_log_alone",
        rows="D116",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "        elif known is not None:\n            self._keep",
        "        elif known is not None and not event.recovering:\n            self._keep",
        "tests/kips/test_kip_595_records.py::test_a_repeated_update_in_the_log_is_accepted",
        rows="D119",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "        return None if topic is None else topic.partitions.get(event.partition)",
        "        return None if topic is None else next(iter(topic.partitions.values()), None)",
        "tests/kips/test_kip_704_recovery.py::test_a_change_affects_one_partition_only",
        rows="D120",
    ),
    Bug(
        "streaming/replay/machine.py",
        "            complete=True,\n            last_offset=last_contained,",
        ("            complete=True,\n            features={},\n            last_offset=last_contained,"),
        "tests/unit/streaming/replay/test_replay_laws.py::test_a_snapshot_and_the_records_after_it_equal_the_whole_log",
        rows="D122",
    ),
    Bug(
        "streaming/metrics/rates.py",
        "return (sum(waits) / len(waits) / 1000, max(waits) / 1000) if waits else None",
        "return (sum(waits) / len(waits) / 1000, min(waits) / 1000) if waits else None",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_commit_waits_for_the_voter_that_completes_the_majority",
        rows="D125",
    ),
    Bug(
        "connectors/gather/node_directory.py",
        "                _keep(self._registered, event.id, event.endpoints)",
        "                self._registered.setdefault(event.id, event.endpoints)",
        "tests/unit/connectors/gather/test_node_directory.py::test_a_moved_node_is_contacted_where_the_newest_poll_else_its_registration_says",
        rows="D131",
    ),
    Bug(
        "rules/analysis/replica_lag.py",
        "    if len(recent) < min(window, 3):\n        return Readiness.UNKNOWN",
        "    if len(recent) < min(window, 3):\n        return Readiness.READY",
        "tests/unit/rules/test_window_of_samples.py::test_readiness_is_evaluated_on_the_window_and_not_on_one_sample",
        rows="D140",
    ),
)
