"""Bugs against what KIP-595 says (rows D): elections, fetches and truncation.

`sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "rules/analysis/freshness.py",
        'name="fetch_age",\n    default=10.0',
        'name="fetch_age",\n    default=2.0',
        "tests/kips/test_thresholds.py::test_a_voter_counts_as_not_fetching_after_five_fetch_timeouts",
        rows="D008 D011 D012",
    ),
    Bug(
        "rules/checks/no_leader.py",
        "thresholds=(hold(5.0), clear(), ANSWER",
        "thresholds=(hold(3.0), clear(), ANSWER",
        "tests/kips/test_thresholds.py::test_no_leader_fires_after_an_election_and_its_backoff",
        rows="D010",
    ),
    Bug(
        "connectors/kafka/messages.py",
        'id=known_node_id(row.replica_id, "DescribeQuorum: replica_id")',
        "id=NodeId(row.replica_id - 1)",
        "tests/kips/test_kip_595_fetch.py::test_describe_quorum_returns_leader_epoch_high_watermark_voters_and_observers",
        rows="D014",
    ),
    Bug(
        "connectors/metadata/batches.py",
        "return bool(self.attributes & _CONTROL_BIT)",
        "return bool(self.attributes)",
        "tests/kips/test_kip_595_records.py::test_only_the_control_bit_marks_a_control_record",
        rows="D018",
    ),
    Bug(
        "connectors/metadata/batches.py",
        "_CONTROL_BIT: Final = 0x20",
        "_CONTROL_BIT: Final = 0x10",
        "tests/kips/test_kip_595_records.py::test_only_the_control_bit_marks_a_control_record",
        rows="D019",
    ),
    Bug(
        "connectors/kafka/messages.py",
        'node_id(current.leader_id, "Fetch: leader_id")',
        "current.leader_id",
        "tests/kips/test_kip_595_fetch.py::test_the_tagged_fields_of_a_fetch_response",
        rows="D021",
    ),
    Bug(
        "streaming/replay/invariants.py",
        "            self.leader_reported(leader=event.leader_id, epoch=epoch, now_ms=now_ms)\n",
        "",
        "tests/kips/test_kip_595_observed_elections.py::test_votes_against_the_rules_are_reported_also_after_the_monitor_restarts",
        rows="D025",
    ),
    Bug(
        "streaming/status/log_dir_status.py",
        "ReplicaKey(id=state.voted_id, directory_id=state.voted_directory_id)",
        "state.voted_id",
        "tests/kips/test_kip_595_observed_elections.py::test_the_vote_on_a_disk_is_shown_with_its_epoch",
        rows="D025",
    ),
    Bug(
        "rules/analysis/endpoint_status.py",
        ('            return "another node" if probe.answered_by is None else f"node {probe.answered_by}"\n'),
        "            return None\n",
        "tests/kips/test_kip_595_other_rows.py::test_a_voters_endpoint_answered_by_another_cluster_or_node_fires",
        rows="D028",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "lag_time_ms=lag_ms(poll, row),\n        liveness",
        "lag_time_ms=fetch_age_ms(poll, row),\n        liveness",
        "tests/kips/test_kip_595_metrics.py::test_leader_epoch_high_watermark_and_lags_come_from_polls_alone",
        rows="D030",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "max_bytes=max_bytes, topics=[topic], **cluster)",
        "max_bytes=max_bytes, topics=[topic])",
        "tests/kips/test_kip_595_fetch.py::test_a_snapshots_fetch_has_the_leader_epoch_and_the_cluster_id_too",
        rows="D031",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "        current_leader_epoch=leader_epoch,\n        fetch_offset",
        "        current_leader_epoch=last_epoch,\n        fetch_offset",
        "tests/unit/connectors/kafka/test_messages.py::test_fetch_has_replica_id_minus_one_in_every_version",
        rows="D032",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "        current_leader_epoch=leader_epoch,\n        snapshot_id",
        "        current_leader_epoch=snapshot.epoch,\n        snapshot_id",
        "tests/kips/test_kip_595_fetch.py::test_a_snapshots_fetch_has_the_leader_epoch_and_the_cluster_id_too",
        rows="D032",
    ),
    Bug(
        "connectors/kafka/error_classification.py",
        "case 104:",
        "case 105:",
        "tests/unit/connectors/kafka/test_messages.py::test_errors_unrelated_to_the_leader_are_classified",
        rows="D034",
    ),
    Bug(
        "connectors/gather/node_directory.py",
        "self.leader_epoch = response.leader_epoch\n",
        "self.leader_epoch = max(self.leader_epoch, response.leader_epoch)\n",
        "tests/unit/connectors/gather/test_kip_595_reader.py::test_leader_without_committed_records_is_critical_for_older_and_newer_epochs",
        rows="D036",
    ),
    Bug(
        "streaming/replay/recent_history.py",
        "after_ms=None if previous_ms is None else Millis(max(0, at.timestamp_ms - previous_ms))",
        "after_ms=None if previous_ms is None else Millis(max(0, at.timestamp_ms - previous_ms) // 1000)",
        "tests/kips/test_kip_595_observed_elections.py::test_an_election_alerts_only_if_candidates_stand_again_and_again",
        rows="D041",
    ),
    Bug(
        "streaming/replay/leadership_state.py",
        "UNCONFIRMED_MS = Millis(30_000)",
        "UNCONFIRMED_MS = Millis(3_000)",
        "tests/unit/streaming/replay/test_probe_state.py::test_a_poll_of_an_older_epoch_is_ignored_for_30_s",
        rows="D043",
    ),
    Bug(
        "rules/checks/epoch_churn.py",
        "one.leader_epoch - one.previous_epoch - 1",
        "one.leader_epoch - one.previous_epoch",
        "tests/unit/streaming/replay/test_election_facts.py::test_more_epochs_than_elections_fit_into_the_time_without_a_leader_fire",
        rows="D045",
    ),
    Bug(
        "rules/checks/epoch_churn.py",
        "if skipped * thresholds.ms(ELECTION_TIME.name) > one.after_ms:",
        "if skipped * thresholds[ELECTION_TIME.name] > one.after_ms:",
        "tests/unit/streaming/replay/test_election_facts.py::test_more_epochs_than_elections_fit_into_the_time_without_a_leader_fire",
        rows="D045",
    ),
    Bug(
        "rules/analysis/electability.py",
        "ends = sorted(voter.position for voter in giving if voter.position is not None)",
        "ends = sorted((0, voter.position[1]) for voter in giving if voter.position is not None)",
        "tests/unit/rules/analysis/test_electability.py::test_one_voter_down_one_moved_one_unchanged",
        rows="D049",
    ),
    Bug(
        "rules/analysis/electability.py",
        "return (history.last_leader_epoch, history.last_log_end_offset)",
        "return (poll.leader_epoch if poll else history.last_leader_epoch, history.last_log_end_offset)",
        "tests/kips/test_kip_856_votes.py::test_the_log_of_a_voter_that_stopped_before_an_election_ends_in_the_earlier_epoch",
        rows="D049",
    ),
    Bug(
        "rules/analysis/electability.py",
        "voter.position > own:",
        "voter.position[1] > own[1]:",
        "tests/unit/rules/analysis/test_electability.py::test_epochs_are_compared_before_offsets",
        rows="D049",
    ),
    Bug(
        "streaming/replay/invariants.py",
        "votes, voters = {*event.granting_voter_ids} & {*event.voter_ids}, len(event.voter_ids)",
        "votes, voters = {*event.granting_voter_ids}, len(event.voter_ids)",
        "tests/kips/test_kip_595_observed_elections.py::test_a_leader_and_voters_that_the_committed_set_does_not_list_yet_violate_nothing",
        rows="D051",
    ),
    Bug(
        "streaming/replay/invariants.py",
        "        self.leader_reported(leader=leader, epoch=epoch, now_ms=now_ms)\n        before",
        "        before",
        "tests/kips/test_invariants_of_the_texts.py::test_two_controllers_that_answer_as_leaders_of_one_epoch_are_critical",
        rows="D052",
    ),
    Bug(
        "connectors/gather/log_follower.py",
        "elif reported is not None and reported not in failed and not self._is_failed(response):",
        "elif False:",
        "tests/unit/connectors/gather/test_kip_595_reader.py::test_of_two_reported_leaders_that_of_the_newer_epoch_is_asked",
        rows="D053",
    ),
    Bug(
        "connectors/gather/log_follower.py",
        "            self._nodes.leader = reported\n\n    def _drop_leader",
        "            self._drop_leader(queried)\n\n    def _drop_leader",
        "tests/unit/connectors/gather/test_kip_595_reader.py::test_former_leader_reports_the_new_one_and_fetching_resumes_there_at_the_same_offset",
        rows="D057",
    ),
    Bug(
        "connectors/gather/log_follower.py",
        "key=lambda one: one[1].leader_epoch or 0)",
        "key=lambda one: -(one[1].leader_epoch or 0))",
        "tests/unit/connectors/gather/test_kip_595_reader.py::test_of_two_reported_leaders_that_of_the_newer_epoch_is_asked",
        rows="D057",
    ),
    Bug(
        "rules/checks/epoch_churn.py",
        "for one in before[-1:] if one.leader_id == start.id)",
        "for one in before[-1:])",
        "tests/unit/rules/test_log_rules.py::test_only_the_start_of_the_controller_that_lost_or_won_explains_an_election",
        rows="D060",
    ),
    Bug(
        "streaming/replay/leadership_state.py",
        (
            "self.high_watermark, self.high_watermark_since_ms = high_watermark, now_ms\n"
            "            self.lower_high_watermark = None\n"
            "        else:"
        ),
        (
            "self.high_watermark, self.high_watermark_since_ms = high_watermark or self.high_watermark, "
            "now_ms\n"
            "            self.lower_high_watermark = None\n"
            "        else:"
        ),
        "tests/kips/test_kip_595_observed_commits.py::test_a_new_leader_has_no_high_watermark_until_it_commits_in_its_own_epoch",
        rows="D064",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "for one in endpoints or () if one.node_id == node)",
        "for one in endpoints or ())",
        "tests/kips/test_kip_595_fetch.py::test_the_leaders_address_is_that_of_the_node_with_its_id",
        rows="D066",
    ),
    Bug(
        "connectors/kafka/messages.py",
        'snapshot=_snapshot_id(partition.snapshot_id, "Fetch: snapshot_id")',
        'snapshot=_snapshot_id(partition.diverging_epoch, "Fetch: snapshot_id")',
        "tests/kips/test_kip_595_fetch.py::test_the_tagged_fields_of_a_fetch_response",
        rows="D069",
    ),
    Bug(
        "connectors/kafka/messages.py",
        'high_watermark=offset(partition.high_watermark, "Fetch',
        'high_watermark=offset(partition.last_stable_offset, "Fetch',
        "tests/kips/test_kip_595_fetch.py::test_every_other_field_of_a_fetch_response_is_read_at_its_place",
        rows="D070",
    ),
    Bug(
        "connectors/gather/commit_buffer.py",
        "        if self._uncommitted:\n            self._drop_uncommitted()\n            return",
        "        if self._uncommitted:\n            return",
        "tests/kips/test_kip_595_fetch.py::test_a_diverging_response_truncates_what_was_read_and_not_committed",
        rows="D072 D073 D077",
    ),
    Bug(
        "connectors/gather/commit_buffer.py",
        "return FetchPosition(offset=self.next_offset, epoch=self.last_epoch)",
        "return FetchPosition(offset=self.next_offset, epoch=leader_epoch)",
        "tests/kips/test_kip_595_fetch.py::test_a_diverging_response_truncates_what_was_read_and_not_committed",
        rows="D079 D080",
    ),
    Bug(
        "connectors/gather/log_follower.py",
        "START = FetchPosition(offset=0, epoch=0)",
        "START = FetchPosition(offset=1, epoch=0)",
        "tests/unit/connectors/gather/test_kip_595_reader.py::test_log_follower_without_a_position_fetches_from_offset_0",
        rows="D081",
    ),
    Bug(
        "connectors/gather/quorum_poll.py",
        "if one is not None][:1]",
        "if one is not None][:0]",
        "tests/unit/connectors/gather/test_quorum_poll.py::test_only_the_leader_is_polled_once_it_is_found",
        rows="D083",
    ),
)
