"""Bugs in streaming/: the step, the job, the status."""

from tests.bugs.bug import Bug

BUGS = (
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
        "streaming/pipeline/step.py",
        "if group_of(name) == group and name not in states]",
        "if name not in states]",
        "tests/unit/streaming/pipeline/test_cluster_groups.py::test_a_damaged_value_concerns_no_cluster_of_another_group",
    ),
    Bug(
        "streaming/pipeline/step.py",
        "        failure = failure or reason\n    return output, failure",
        "        failure = reason\n    return output, failure",
        "tests/unit/streaming/pipeline/test_step_containment.py::test_what_cannot_be_rendered_is_reported_although_the_status_can",
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
        "streaming/pipeline/deliver.py",
        "quarantined[row.cluster] += 1",
        "quarantined[row.cluster] = 1",
        "tests/unit/streaming/pipeline/test_deliver_containment.py::test_quarantined_rows_are_counted_by_cluster",
    ),
    Bug(
        "streaming/pipeline/deliver.py",
        "if failed:",
        "if False:",
        "tests/unit/streaming/pipeline/test_standby_delivery.py::test_a_store_that_lost_an_answer_is_read_again_before_the_alert_is_recorded",
    ),
    Bug(
        "streaming/pipeline/deliver.py",
        "            if role.is_standby:\n                self._delivery = None\n",
        "",
        "tests/unit/streaming/pipeline/test_standby_delivery.py::test_a_job_that_is_active_again_sends_what_the_other_one_recorded_and_did_not_send",
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
        "streaming/pipeline/early_alerts.py",
        "tracked=replace(tracked, conditions=of_early_rules),",
        "tracked=tracked,",
        "tests/unit/streaming/pipeline/test_early_alerts.py::test_an_alert_of_another_rule_from_before_the_restart_is_left_to_the_step",
    ),
    Bug(
        "streaming/pipeline/initial_alerts.py",
        "conditions=conditions.get(cluster, {}))",
        "conditions=next(iter(conditions.values()), {}))",
        "tests/unit/streaming/pipeline/test_initial_alerts.py::test_each_cluster_has_its_own_alerts_with_their_beginning",
    ),
    Bug(
        "streaming/pipeline/initial_alerts.py",
        "started_at_ms=alert.started_at_ms,",
        "started_at_ms=alert.observed_at_ms,",
        "tests/unit/streaming/pipeline/test_initial_alerts.py::test_each_cluster_has_its_own_alerts_with_their_beginning",
    ),
    Bug(
        "streaming/job/cluster_identity.py",
        "{**recorded, **answered.confirmed})",
        "answered.confirmed)",
        "tests/unit/streaming/job/test_cluster_identity.py::test_the_ids_of_clusters_that_are_not_configured_now_stay_recorded",
    ),
    Bug(
        "streaming/pipeline/kafka_source.py",
        "key if key in self._clusters else None",
        "key or None",
        "tests/unit/streaming/pipeline/test_kafka_source.py::test_a_refused_message_names_its_cluster_only_if_it_is_a_monitored_one",
    ),
    Bug(
        "streaming/status/build_status.py",
        "or one.source is not ObservationSource.QUORUM or",
        "or",
        "tests/unit/streaming/status/test_status_fields.py::test_failed_fetch_before_the_newest_poll_is_listed",
    ),
    Bug(
        "streaming/status/build_status.py",
        "if one.notified_severity is None)",
        "if one)",
        "tests/unit/streaming/status/test_job_status.py::test_pending_conditions_are_those_that_do_not_fire_the_next_due_one_first",
    ),
    Bug(
        "streaming/status/build_status.py",
        "key=lambda one: one.due_at_ms",
        "key=lambda one: one.started_at_ms",
        "tests/unit/streaming/status/test_job_status.py::test_pending_conditions_are_those_that_do_not_fire_the_next_due_one_first",
    ),
    Bug(
        "streaming/status/build_status.py",
        "oldest.setdefault(one.topic_id, one)",
        "oldest[one.topic_id] = one",
        "tests/unit/streaming/status/test_job_status.py::test_a_topic_is_recovering_since_the_first_of_its_partitions",
    ),
    Bug(
        "streaming/status/build_status.py",
        "return broker is not None and broker.alive",
        "return broker is not None",
        "tests/unit/streaming/status/test_status_fields.py::test_a_fenced_replica_is_not_alive",
    ),
)
