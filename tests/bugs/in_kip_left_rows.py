"""Bugs with which what a row states is plainly broken or absent: rows that none of the seeds 491, 523 and 557 drew.

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "connectors/logdir/log_dir_reader.py",
        "in (*files.snapshots, *files.segments) for",
        "in files.snapshots for",
        "tests/unit/connectors/logdir/test_log_dir_files.py::test_recorded_voter_sets_of_the_log_and_of_the_snapshots",
        rows="A058",
    ),
    Bug(
        "rules/remedies/remedy_commands.py",
        'return ("# Wait until the pending change of the voter set is committed or dropped",) if pending else ()',
        "return () if pending else ()",
        "tests/kips/test_kip_856_voter_changes.py::test_while_a_change_is_pending_every_remedy_says_to_start_no_other",
        rows="A076",
    ),
    Bug(
        "rules/checks/epoch_churn.py",
        "if skipped * thresholds.ms(ELECTION_TIME.name) > one.after_ms:",
        "if skipped:",
        "tests/unit/rules/test_log_rules.py::test_jump_is_more_epochs_than_elections_fit_into_the_time_before",
        rows="D009",
    ),
    Bug(
        "streaming/job/cluster_identity.py",
        "case ObservationError() if answer.reason is Reason.WRONG_CLUSTER:",
        'case ObservationError() if answer.reason is Reason.WRONG_CLUSTER and recorded == "":',
        "tests/unit/streaming/job/test_cluster_identity.py::test_another_cluster_than_the_configured_one_is_refused",
        rows="D034",
    ),
    Bug(
        "streaming/replay/machine.py",
        "re_read = last_contained <= self.log.position and event.epoch <= self.log.epoch",
        "re_read = False",
        "tests/unit/streaming/replay/test_snapshot_replay.py::test_a_snapshot_of_applied_records_is_skipped",
        rows="K046",
    ),
    Bug(
        "rules/analysis/restart_election.py",
        "    claimed, known = now.last_election, candidate.last_election\n",
        "    claimed, known = now.last_election, None\n",
        "tests/unit/rules/analysis/test_restart_election.py::test_voter_that_does_not_know_the_last_leader_may_be_elected",
        rows="K023",
    ),
    Bug(
        "streaming/metrics/quorum_metrics.py",
        "_while_polled(lambda sample: sample.rates.append_rate()),",
        "lambda sample: None,",
        "tests/unit/streaming/metrics/test_quorum_metrics.py::test_append_and_fetch_rates_are_exported",
        rows="D113",
    ),
    Bug(
        "streaming/replay/leadership_state.py",
        "if before is not None and high_watermark < before:",
        "if before is not None and high_watermark < 0:",
        "tests/unit/streaming/replay/test_invariants.py::test_answers_that_raft_excludes_are_violations",
        rows="K042",
    ),
    Bug(
        "rules/analysis/restart_election.py",
        "for one in ordered if one.alive and one.key in one.voters.keys)",
        "for one in ordered if one.alive)",
        "tests/kips/test_kip_856_votes.py::test_an_addition_on_some_disks_needs_the_vote_of_a_voter_without_the_record",
        rows="A009",
    ),
    Bug(
        "streaming/status/event_history.py",
        'votes = f", votes of {and_join(election.granting_voter_ids)}" if election.granting_voter_ids else ""',
        'votes = ""',
        "tests/unit/streaming/report/test_timeline_entries.py::test_an_election_names_the_voters_that_granted_their_votes",
        rows="A055",
    ),
    Bug(
        "connectors/gather/commit_buffer.py",
        "high_watermark = -1 if response.high_watermark is None else response.high_watermark",
        "high_watermark = self.next_offset if response.high_watermark is None else response.high_watermark",
        "tests/kips/test_kip_595_observed_commits.py::test_records_that_a_majority_does_not_have_yet_are_not_replayed",
        rows="D064",
    ),
    Bug(
        "connectors/gather/commit_buffer.py",
        "LOSS_CONFIRM_MS = 5_000",
        "LOSS_CONFIRM_MS = 0",
        "tests/kips/test_thresholds.py::test_holds_are_longer_than_kafkas_own_timers",
        rows="K035",
    ),
)
