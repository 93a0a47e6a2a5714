"""Bugs in connectors/: what is relayed, recorded and sent."""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "connectors/sinks/alertmanager.py",
        "if before != labels:",
        "if before[1] != labels[1]:",
        "tests/sinks/test_alertmanager.py::test_an_alert_that_is_no_longer_critical_is_a_warning_only",
    ),
    Bug(
        "connectors/sinks/alertmanager.py",
        "starts_at_ms = min(alert.started_at_ms, sent_at_ms)",
        "starts_at_ms = alert.started_at_ms",
        "tests/sinks/test_alertmanager.py::test_alert_from_before_the_clock_was_set_back_ends_at_once",
    ),
    Bug(
        "connectors/sinks/jsonl.py",
        "if identity != self._identity or status.st_size < self._size_bytes:",
        "if identity != self._identity:",
        "tests/unit/connectors/sinks/test_jsonl.py::test_a_truncated_file_is_read_again",
    ),
    Bug(
        "connectors/sinks/jsonl.py",
        "            self._identity, self._size_bytes = identity, 0",
        "            self._identity, self._size_bytes, self._written = identity, 0, set()",
        "tests/unit/connectors/sinks/test_jsonl.py::test_a_rotated_file_is_created_again_without_repeating_lines",
    ),
    Bug(
        "connectors/secret.py",
        "text = text.replace(secret, _HIDDEN) if secret else text",
        "text = text.replace(secret, _HIDDEN, 1) if secret else text",
        "tests/unit/connectors/test_error_redaction.py::test_every_occurrence_of_every_secret_is_removed",
    ),
    Bug(
        "connectors/secret.py",
        "for secret in secrets:\n",
        "for secret in secrets[:1]:\n",
        "tests/unit/connectors/test_error_redaction.py::test_every_occurrence_of_every_secret_is_removed",
    ),
    Bug(
        "connectors/relay/waiting_rows.py",
        "while waiting and is_done(waiting[0]):",
        "while waiting and any(map(is_done, waiting)):",
        "tests/unit/connectors/relay/test_waiting_rows.py::test_rows_of_a_cluster_leave_in_their_order",
    ),
    Bug(
        "connectors/relay/waiting_rows.py",
        "while self._order and self._order[0].done:",
        "while any(one.done for one in self._order):",
        "tests/unit/connectors/relay/test_waiting_rows.py::test_the_journal_is_done_below_the_first_row_of_any_cluster_that_waits",
    ),
    Bug(
        "connectors/relay/waiting_rows.py",
        "return None if done is None else done.sequence + 1",
        "return None if done is None else done.sequence",
        "tests/unit/connectors/relay/test_waiting_rows.py::test_the_journal_is_done_below_the_first_row_of_any_cluster_that_waits",
    ),
    Bug(
        "connectors/relay/written_clusters.py",
        "return position.epoch == written.epoch and position.sequence >= one.sent",
        "return position.sequence >= one.sent",
        "tests/unit/connectors/relay/test_written_clusters.py::test_a_row_that_was_sent_is_in_the_topic_once_a_row_of_the_same_epoch_is",
    ),
    Bug(
        "connectors/relay/topic_position.py",
        "whole = caught_up or (before is not None and same and before.whole",
        "whole = caught_up or (before is not None and before.whole",
        "tests/unit/connectors/relay/test_topic_position.py::test_a_baseline_that_begins_with_a_poll_is_not_whole",
    ),
    Bug(
        "connectors/relay/topic_position.py",
        "return row.log_end <= self.log_end",
        "return row.log_end < self.log_end",
        "tests/unit/connectors/relay/test_topic_position.py::test_the_topic_has_a_poll_that_is_not_newer_and_records_that_are_not_beyond_its_log",
    ),
    Bug(
        "connectors/relay/topic_position.py",
        "return row.log_begin is None or row.log_begin <= self.log_end",
        "return True",
        "tests/unit/connectors/relay/test_topic_position.py::test_a_log_is_continued_without_a_missing_offset_or_by_a_snapshot",
    ),
    Bug(
        "connectors/relay/topic_position.py",
        "beyond = max(sent, 0 if position is None else position.sequence)",
        "beyond = 0 if position is None else position.sequence",
        "tests/unit/connectors/relay/test_topic_position.py::test_an_epoch_begins_beyond_everything_although_a_clock_is_behind",
    ),
    Bug(
        "connectors/relay/topic_position.py",
        "gap=(before.gap if before is not None and same else None) or",
        "gap=",
        "tests/unit/connectors/relay/test_topic_position.py::test_missing_offsets_are_named_until_a_new_baseline",
    ),
    Bug(
        "connectors/relay/written_clusters.py",
        "return sequence >= self.first and not known",
        "return not known",
        "tests/unit/connectors/relay/test_written_clusters.py::test_rows_before_an_epoch_and_polls_that_are_not_newer_are_not_sent",
    ),
    Bug(
        "connectors/delivery/ledger.py",
        "new.setdefault(alert.key, alert.recorded(now_ms))",
        "new[alert.fingerprint] = alert.recorded(now_ms)",
        "tests/unit/connectors/delivery/test_dispatcher.py::test_a_failing_sink_receives_the_rest_later_in_order",
    ),
    Bug(
        "connectors/delivery/ledger.py",
        "number: DeliveryStatus.PENDING if number in self._firing else DeliveryStatus.DISCARDED",
        "number: DeliveryStatus.PENDING",
        "tests/unit/connectors/delivery/test_dispatcher.py::test_transitions_before_a_new_sink_do_not_count_as_delivered",
    ),
    Bug(
        "connectors/delivery/ledger.py",
        "if status[number] is not DeliveryStatus.DISCARDED\n            ]",
        "]",
        "tests/unit/connectors/delivery/test_cut_off_alerts.py::test_a_sink_gets_the_page_if_one_of_its_clusters_is_blind",
    ),
    Bug(
        "connectors/delivery/dispatcher.py",
        "for name in before.keys() - set(names):\n            self._ledger.deactivate_sink(name)",
        "",
        "tests/unit/connectors/delivery/test_dispatcher_set_sinks.py::test_what_a_removed_sink_did_not_get_is_dropped_without_a_warning",
    ),
    Bug(
        "connectors/delivery/dispatcher.py",
        "if before is not None:\n            worker.take_over(before)",
        "",
        "tests/unit/connectors/delivery/test_dispatcher_set_sinks.py::test_a_call_in_progress_is_not_repeated_by_the_sinks_successor",
    ),
    Bug(
        "connectors/delivery/dispatcher.py",
        "self._ledger.record([*alerts, *self._own_alerts], now_ms)",
        "self._ledger.record([*alerts], now_ms)",
        "tests/unit/connectors/delivery/test_dispatcher.py::test_a_sink_that_fails_for_minutes_is_reported_by_the_other_sinks_but_not_by_itself",
    ),
    Bug(
        "connectors/delivery/sink_worker.py",
        "if len(outcomes) != len(self._notifications):",
        "if len(outcomes) < len(self._notifications):",
        "tests/unit/connectors/delivery/test_dispatcher.py::test_an_exception_in_a_sink_is_a_retry_without_secrets",
    ),
    Bug(
        "connectors/delivery/sink_worker.py",
        "self._collect(0.0 if self._overdue else min(timeout_s, self._deadline_s), now_ms)",
        "self._collect(min(timeout_s, self._deadline_s), now_ms)",
        "tests/unit/connectors/delivery/test_dispatcher.py::test_no_batch_waits_for_an_overdue_call",
    ),
    Bug(
        "connectors/delivery/sink_worker.py",
        "return [*self._set_aside.new(planned), *again][:_MAX_NOTIFICATIONS]",
        "return [*again, *self._set_aside.new(planned)][:_MAX_NOTIFICATIONS]",
        "tests/unit/connectors/delivery/test_dispatcher.py::test_alerts_that_a_sink_refuses_are_retried_less_and_less_often_and_last",
    ),
    Bug(
        "connectors/delivery/sink_worker.py",
        "return self._reason is not None or self._call is None",
        "return self._call is None",
        "tests/unit/connectors/delivery/test_dispatcher.py::test_a_sink_that_hangs_for_minutes_is_reported_by_the_other_sinks",
    ),
    Bug(
        "connectors/store/silences.py",
        "return tuple(sorted(self._stored.items().values(), key=lambda one: one.starts_at_ms))",
        "return tuple(self._stored.items().values())",
        "tests/unit/connectors/store/test_silences.py::test_silences_are_listed_in_the_order_of_their_beginning",
    ),
)
