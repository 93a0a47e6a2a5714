"""Bugs with which what a row of the KIPs states is plainly broken or absent: seed 619, then all other rows.

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "connectors/metadata/record_to_event.py",
        'key=ReplicaKey(id=node, directory_id=voter["voter_directory_id"]),',
        "key=ReplicaKey(id=node, directory_id=None),",
        "tests/kips/test_kip_856_names.py::test_directory_id_voter_directory_id_and_voted_directory_id_name_one_replica",
        rows="A008",
    ),
    Bug(
        "streaming/replay/recent_history.py",
        "    return replace(history, elections=_bounded(history.elections, one))\n",
        "    return history\n",
        "tests/kips/test_kip_595_observed_elections.py::test_an_election_alerts_only_if_candidates_stand_again_and_again",
        rows="A029",
    ),
    Bug(
        "streaming/replay/quorum_builder.py",
        "        high_watermark=leadership.high_watermark,\n",
        "        high_watermark=None,\n",
        "tests/kips/test_kip_595_metrics.py::test_leader_epoch_high_watermark_and_lags_come_from_polls_alone",
        rows="A040",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "    latest, committed = {row.key for row in quorum.poll.voters}, quorum.committed.keys\n",
        "    latest = committed = quorum.committed.keys\n",
        "tests/kips/test_kip_595_metrics.py::test_a_removal_that_timed_out_and_succeeded_is_in_the_log",
        rows="A045",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "        topics=[topic],\n        min_version=12,\n",
        "        topics=[],\n        min_version=12,\n",
        "tests/unit/connectors/kafka/test_messages.py::test_whole_fetch_in_every_version",
        rows="D029",
    ),
    Bug(
        "rules/checks/epoch_churn.py",
        "    if elections and len(elections) - count >= thresholds[ELECTIONS.name]:\n",
        "    if False:\n",
        "tests/unit/rules/test_log_rules.py::test_elections_that_no_restart_explains_are_churn",
        rows="D041",
    ),
    Bug(
        "streaming/replay/poll_history.py",
        "        poll = copied(Poll, event, observed_at_ms=now_ms, nodes=",
        (
            "        listed = {each.key for each in (*event.voters, *event.observers)}\n"
            "        known = self.newest.observers if self.newest else ()\n"
            "        kept = (row for row in known if row.key not in listed)\n"
            "        observers = (*event.observers, *kept)\n"
            "        poll = copied(Poll, event, observed_at_ms=now_ms, observers=observers, nodes="
        ),
        "tests/kips/test_kip_595_metrics.py::test_an_observer_that_a_poll_no_longer_lists_is_gone",
        rows="D142",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "removed=tuple(sorted(committed - latest)),",
        "removed=(),",
        "tests/unit/streaming/status/test_status_fields.py::test_uncommitted_voter_change_is_pending",
        rows="A025",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "        voters=voters,\n",
        "        voters=(),\n        # no voters\n",
        "tests/unit/connectors/kafka/test_messages.py::test_whole_poll_in_every_version",
        rows="A047",
    ),
    Bug(
        "rules/resolved_texts.py",
        "    if voter is None:\n"
        '        return f"Controller {_node(subject)} is not a voter."\n'
        '    return f"Controller {_node(subject)} is a voter with directory id {voter.key.directory_id}."',
        '    return f"Controller {_node(subject)} is not a voter."',
        "tests/unit/rules/test_resolved_texts.py::test_text_is_about_the_quorum_now",
        rows="A051",
    ),
    Bug(
        "streaming/status/what_if.py",
        "            voters=quorum.committed,\n",
        "            voters=contents.voter_sets[0].voters if contents.voter_sets else quorum.committed,\n",
        "tests/cli/test_what_if.py::test_leader_that_another_voter_does_not_know_makes_the_outcome_unknown",
        rows="A058",
    ),
    Bug(
        "rules/analysis/replica_lag.py",
        "    if leader_at_ms is None or at_ms is None:\n        return None\n",
        "    if leader_at_ms is None or at_ms is None:\n        return Millis(0)\n",
        "tests/unit/rules/analysis/test_last_fetch.py::test_a_replica_that_no_kept_poll_reported_has_no_last_fetch",
        rows="A097",
    ),
    Bug(
        "rules/evaluate.py",
        "        if need is Need.VOTERS_RECORD and _static(quorum):\n",
        "        if False:\n",
        "tests/unit/rules/test_evaluate.py::test_static_quorum_is_not_applicable_instead_of_healthy",
        rows="A111",
    ),
    Bug(
        "connectors/kafka/messages.py",
        "topic_name=TOPIC, partitions=[partition])])\n",
        "topic_name=TOPIC, partitions=[partition])], max_version=0)\n",
        "tests/unit/connectors/kafka/test_client.py::test_a_poll_is_sent_in_the_newest_version_that_both_know",
        rows="A115",
    ),
    Bug(
        "rules/checks/epoch_churn.py",
        "        if one.after_ms is None or skipped < thresholds[JUMP.name]:\n",
        "        if one.after_ms is None or skipped < 1:\n",
        "tests/unit/rules/test_log_rules.py::test_jump_is_more_epochs_than_elections_fit_into_the_time_before",
        rows="D042",
    ),
    Bug(
        "streaming/replay/leadership_state.py",
        "        if self.epoch is not None and epoch < self.epoch and not self._expired(now_ms):\n",
        "        if False:\n",
        "tests/kips/test_kip_595_observed_elections.py"
        "::test_a_leader_without_its_majority_is_reported_and_its_old_answers_do_not_count_after_a_newer_leader",
        rows="D059",
    ),
    Bug(
        "connectors/kafka/messages.py",
        '        high_watermark=optional(Offset, partition.high_watermark, "DescribeQuorum: high_watermark"),\n',
        "        high_watermark=None,\n",
        "tests/unit/connectors/kafka/test_messages.py::test_whole_poll_in_every_version",
        rows="D074",
    ),
    Bug(
        "connectors/kafka/messages.py",
        '        log_end_offset=optional(Offset, row.log_end_offset, "DescribeQuorum: log_end_offset"),\n',
        '        log_end_offset=optional(Offset, row.log_end_offset, "DescribeQuorum: log_end_offset") or None,\n',
        "tests/unit/connectors/kafka/test_messages.py::test_whole_poll_in_every_version",
        rows="D081",
    ),
    Bug(
        "rules/analysis/restart_election.py",
        "    return epoch < claimed_epoch or (epoch == claimed_epoch and leader is None)\n",
        "    return False\n",
        "tests/unit/rules/analysis/test_restart_election.py"
        "::test_voter_that_does_not_know_the_last_leader_may_be_elected",
        rows="D095",
    ),
    Bug(
        "streaming/replay/recent_history.py",
        "    history = replace(history, voter_changes=(*history.voter_changes, change)[-REMEMBERED:])",
        "    history = replace(history, voter_changes=(*history.voter_changes, change)[:0])",
        "tests/unit/streaming/replay/test_recent_history.py::test_every_voter_change_is_kept_as_a_difference",
        rows="D136",
    ),
    Bug(
        "connectors/kafka/response_limits.py",
        "    return None if value is None or value == -1 else known(kind, value, field)",
        "    return kind(0) if value is None or value == -1 else known(kind, value, field)",
        "tests/unit/connectors/kafka/test_response_numbers.py::test_minus_one_is_no_epoch_and_zero_is_the_first",
        rows="K016",
    ),
    Bug(
        "connectors/kafka/response_limits.py",
        "    DescribeQuorumRequest.API_KEY: ResponseLimits(",
        "    56: ResponseLimits(",
        "tests/unit/connectors/kafka/test_response_refusal.py::test_response_to_another_request_is_refused",
        rows="K019",
    ),
)
