"""Bugs in streaming/: the replay and the step."""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "streaming/replay/registrations.py",
        "fenced = previous.fenced if event.fenced is None else event.fenced",
        "fenced = bool(event.fenced)",
        "tests/unit/streaming/replay/test_log_replay.py::test_registrations_of_controllers_and_brokers",
    ),
    Bug(
        "streaming/replay/registrations.py",
        "previous.in_controlled_shutdown if event.in_controlled_shutdown is None else event.in_controlled_shutdown",
        "bool(event.in_controlled_shutdown)",
        "tests/unit/streaming/replay/test_log_replay.py::test_a_registration_has_the_logs_time_and_an_unfenced_broker_is_alive_since_its_first",
    ),
    Bug(
        "streaming/replay/registrations.py",
        "known[node].alive and known[node].incarnation_id == one.incarnation_id",
        "known[node].alive",
        "tests/unit/streaming/replay/test_snapshot_replay.py::test_a_broker_of_a_snapshot_is_alive_since_before_only_if_it_was_alive_with_the_same_incarnation",
    ),
    Bug(
        "streaming/replay/registrations.py",
        "previous is not None and previous.features == features else None",
        "previous is not None else None",
        "tests/unit/streaming/replay/test_features.py::test_supported_features_keep_the_time_of_their_first_registration",
    ),
    Bug(
        "streaming/pipeline/step.py",
        "cached is not None and cached[:2] == (blob, settings) else None",
        "cached is not None and cached[0] == blob else None",
        "tests/unit/streaming/pipeline/test_step_containment.py::test_changed_thresholds_apply_to_a_state_that_the_worker_keeps",
    ),
    Bug(
        "streaming/pipeline/step.py",
        "cached is not None and cached[:2] == (blob, settings) else None",
        "cached is not None else None",
        "tests/unit/streaming/pipeline/test_step_containment.py::test_changed_thresholds_apply_to_a_state_that_the_worker_keeps",
    ),
    Bug(
        "streaming/pipeline/query.py",
        'observations.groupBy("group")',
        'observations.groupBy("group", "observation")',
        "tests/spark/test_partitions.py::test_alerts_are_the_same_with_one_and_four_partitions_and_after_each_change",
    ),
    Bug(
        "streaming/pipeline/source.py",
        "if planned is not None and (planned[0], planned[0] + len(planned[1])) == (begin, until):",
        "if planned is not None and planned[0] == begin:",
        "tests/unit/streaming/pipeline/test_source.py::test_a_repeated_batch_has_the_rows_of_the_first_time_although_more_are_planned_now",
    ),
    Bug(
        "streaming/pipeline/source.py",
        '"sequence": journal.beginning()}',
        '"sequence": journal.first_sequence()}',
        "tests/unit/streaming/pipeline/test_source.py::test_a_new_state_begins_where_the_logs_were_read_again",
    ),
    Bug(
        "streaming/pipeline/source.py",
        "        if self._commits:\n            journal.commit",
        "        if True:\n            journal.commit",
        "tests/unit/streaming/pipeline/test_source.py::test_only_the_job_lets_the_gatherer_delete_rows",
    ),
    Bug(
        "streaming/pipeline/deliver.py",
        'bad[f"{row.cluster}-{row.name}"]',
        "bad[row.name]",
        "tests/unit/streaming/pipeline/test_deliver_containment.py::test_quarantined_rows_of_two_clusters_with_the_same_sequence_are_both_kept",
    ),
    Bug(
        "streaming/pipeline/step.py",
        "if group_of(name) == group and name not in states]",
        "if name not in states]",
        "tests/unit/streaming/pipeline/test_cluster_groups.py::test_a_damaged_value_concerns_no_cluster_of_another_group",
    ),
    Bug(
        "streaming/status/status_store.py",
        "            self._blind &= self._received.keys()\n",
        "",
        "tests/unit/streaming/status/test_status_store.py::test_a_cluster_that_was_removed_while_it_was_blind_is_not_blind_when_it_is_added_again",
    ),
    Bug(
        "streaming/status/status_store.py",
        "ended[-ENDED_RECOVERIES_KEPT:]",
        "ended[:ENDED_RECOVERIES_KEPT]",
        "tests/unit/streaming/status/test_status_store.py::test_ended_recoveries_are_kept_the_newest_ones",
    ),
    Bug(
        "streaming/status/status_store.py",
        "if each.topic_id not in recovering",
        "if each.topic not in {one.topic for one in after.recoveries}",
        "tests/unit/streaming/status/test_status_store.py::test_a_topic_that_was_deleted_while_it_was_recovering_is_ended_although_its_successor_recovers",
    ),
    Bug(
        "streaming/job/clock_steps.py",
        "self._stepped_at, self._alert = at, _alert(",
        "self._alert = _alert(",
        "tests/unit/streaming/job/test_clock_steps.py::test_a_second_step_makes_the_alert_last_longer",
    ),
    Bug(
        "streaming/job/clock_steps.py",
        "_alert(Millis(now_ms - step_ms), now_ms)",
        "_alert(Millis(now_ms + step_ms), now_ms)",
        "tests/unit/streaming/job/test_clock_steps.py::test_the_alert_names_the_times_before_and_after_the_step",
    ),
    Bug(
        "streaming/job/refused_rows.py",
        "{subject: alert.observed_at_ms for subject, alert in self._firing.items()}",
        "dict.fromkeys(self._firing, Millis(0))",
        "tests/unit/streaming/job/test_refused_rows.py::test_firing_alert_of_the_ledger_without_further_rows_lasts_as_long_as_without_the_restart",
    ),
    Bug(
        "streaming/replay/contract_violations.py",
        "if now_ms - each.last_at_ms <= REMEMBERED_MS)",
        "if now_ms - each.first_at_ms <= REMEMBERED_MS)",
        "tests/unit/streaming/replay/test_contract_violations.py::test_a_violation_that_is_repeated_expires_after_its_newest_row",
    ),
    Bug(
        "streaming/replay/invariants.py",
        "        self.polled_epochs.pop(leader, None)\n",
        "",
        "tests/unit/streaming/replay/test_invariants.py::test_a_node_that_answers_again_is_not_the_first_one_that_is_forgotten",
    ),
    Bug(
        "streaming/replay/recent_history.py",
        "known[: of_node[0]] + known[of_node[0] + 1 :]",
        "known[: of_node[-1]] + known[of_node[-1] + 1 :]",
        "tests/unit/rules/test_node_restarting.py::test_of_the_starts_of_a_node_the_oldest_are_forgotten",
    ),
    Bug(
        "streaming/replay/recent_history.py",
        "if (one.kind, one.id) == place), None)",
        "if one.id == event.id), None)",
        "tests/unit/rules/test_duplicate_node_id.py::test_a_controller_and_a_broker_of_one_id_that_are_doubled_are_two_entries",
    ),
    Bug(
        "streaming/replay/recent_history.py",
        "topics[one.topic_id] = _with_election(topics.pop(one.topic_id, None), one)",
        "topics[one.topic_id] = _with_election(topics.get(one.topic_id), one)",
        "tests/unit/streaming/replay/test_unclean_election_history.py::test_many_unclean_elections_do_not_fill_the_state",
    ),
)
