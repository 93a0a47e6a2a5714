"""Bugs with which what a row of the sample of seed 587 states is plainly broken or absent.

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "streaming/status/what_if.py",
        "members.append(replace(one, endpoint=endpoint))",
        "members.append(replace(one, endpoint=endpoint, voters=newest))",
        "tests/cli/test_what_if.py::test_rescued_node_asks_the_new_endpoints",
        rows="A023",
    ),
    Bug(
        "connectors/logdir/log_dir_reader.py",
        "in (*files.snapshots, *files.segments) for",
        "in files.snapshots for",
        "tests/unit/connectors/logdir/test_log_dir_files.py::test_recorded_voter_sets_of_the_log_and_of_the_snapshots",
        rows="A045",
    ),
    Bug(
        "streaming/replay/log.py",
        "                image = replace(image, kraft_version=record.version)\n",
        "                pass\n",
        "tests/unit/streaming/replay/test_log_scenarios.py::test_what_changes_with_each_observation",
        rows="A056",
    ),
    Bug(
        "rules/checks/high_watermark_stalled.py",
        "    needed, in_sync = majority(len(statuses)), in_sync_count(statuses)\n",
        "    own = poll.leader_id not in {each.key.id for each in statuses}\n"
        "    needed, in_sync = majority(len(statuses) + own), in_sync_count(statuses) + own\n",
        "tests/kips/test_kip_856_voter_changes.py::test_a_leader_that_is_being_removed_does_not_count_itself",
        rows="A082",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "            if values.recovering or topic_id in recovering:\n",
        "            if values.recovering:\n",
        "tests/kips/test_kip_704_recovery.py::test_similar_changes_of_several_recovering_partitions_are_replayed",
        rows="B007",
    ),
    Bug(
        "connectors/logdir/log_dir_files.py",
        'properties.get("node.id", properties.get("broker.id"))',
        'properties.get("node.id")',
        "tests/unit/connectors/logdir/test_log_dir_files.py::"
        "test_meta_properties_of_version_0_with_broker_id_and_java_escapes",
        rows="D014",
    ),
    Bug(
        "rules/analysis/electability.py",
        "ahead = 0 if candidate.position is None else len(ends) - bisect_right(ends, candidate.position)",
        "ahead = 0",
        "tests/unit/rules/analysis/test_electability.py::test_one_voter_down_one_moved_one_unchanged",
        rows="D050",
    ),
    Bug(
        "connectors/gather/observation_writer.py",
        "        for event in batches.endpoints:\n            self._nodes.update_from_event(event)\n",
        "        pass\n",
        "tests/unit/connectors/gather/test_observation_writer.py::test_the_voters_in_fetched_records_are_probed",
        rows="D078",
    ),
    Bug(
        "connectors/kafka/concurrent_query.py",
        "if address not in self._pending or self._is_outdated(address, started, since):",
        "if True:",
        "tests/unit/connectors/gather/test_kip_595_reader.py::"
        "test_a_controller_that_has_not_answered_the_search_is_not_sent_another_fetch",
        rows="D082",
    ),
    Bug(
        "streaming/rescue/rescue_plan.py",
        '            yield f"Changes detected: {one.difference}"\n            yield "Validation: PASSED',
        '            yield "Validation: PASSED',
        "tests/kips/test_kip_1347_rescue.py::test_the_dry_run_prints_every_line_of_the_override_and_writes_nothing",
        rows="E023",
    ),
    Bug(
        "streaming/replay/log.py",
        "        if self.transaction is None:\n"
        "            self.partitions.apply_run(run, self.origin)\n"
        "        else:\n"
        "            self.transaction.held += run.events()\n",
        "        self.partitions.apply_run(run, self.origin)\n",
        "tests/unit/streaming/replay/test_run_replay.py::test_several_events_of_one_partition_are_replayed_alike",
        rows="E045",
    ),
    Bug(
        "connectors/gather/node_directory.py",
        "self._voters = {voter.key.id: voter.endpoints for voter in event.voters}",
        "self._voters |= {voter.key.id: voter.endpoints for voter in event.voters}",
        "tests/unit/connectors/gather/test_node_directory.py::"
        "test_each_voter_is_probed_at_the_endpoint_that_voters_use",
        rows="K003",
    ),
    Bug(
        "rules/checks/voter_change_stuck.py",
        "    added = _missing(poll.voter_keys, committed.keys)\n",
        "    added: list[ReplicaKey] = []\n",
        "tests/kips/test_kip_856_voter_changes.py::test_a_pending_change_waits_for_a_majority_of_the_new_set",
        rows="A022",
    ),
    Bug(
        "rules/checks/observer_lagging.py",
        "            yield _not_listed(quorum, poll, broker, thresholds)\n",
        "            continue\n",
        "tests/unit/rules/test_log_rules.py::"
        "test_a_broker_that_the_leader_does_not_list_is_unknown_for_thirty_seconds_and_then_does_not_fetch",
        rows="E095",
    ),
)
