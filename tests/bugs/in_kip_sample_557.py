"""Bugs with which what a row of the sample of seed 557 states is plainly broken or absent.

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "connectors/kafka/messages.py",
        "directory_id=_directory(row.replica_directory_id),",
        "directory_id=None,",
        "tests/unit/connectors/kafka/test_messages.py::test_whole_poll_in_every_version",
        rows="A018",
    ),
    Bug(
        "streaming/replay/recent_history.py",
        "    if before is None or {*before.voters} == {*after.voters}:\n        return history",
        "    if before is None:\n        return history",
        "tests/kips/test_kip_595_records.py::test_a_repeated_voters_record_is_no_change_of_the_voters",
        rows="D119",
    ),
    Bug(
        "connectors/kafka/messages.py",
        'cluster = {} if cluster_id is None else {"cluster_id": cluster_id}\n    return FetchRequest(',
        "cluster: dict[str, str] = {}\n    return FetchRequest(",
        "tests/unit/connectors/kafka/test_messages.py::test_whole_fetch_in_every_version",
        rows="D095",
    ),
    Bug(
        "streaming/rescue/plan_output.py",
        '    yield f"# Brokers{known} hold the old voters and connect to them, '
        'whatever their configuration says: stop each"\n',
        "",
        "tests/kips/test_kip_1347_rescue.py::test_the_steps_stop_all_controllers_and_then_change_controllers_before_brokers",
        rows="E036",
    ),
    Bug(
        "streaming/rescue/plan_output.py",
        """        yield 'mv "$METADATA_LOG_DIR/__cluster_metadata-0" "$METADATA_LOG_DIR.metadata-before-rescue"'\n""",
        "",
        "tests/kips/test_kip_1347_brokers_and_views.py::test_broker_whose_disk_is_not_given_is_not_written_to",
        rows="E070",
    ),
    Bug(
        "rules/checks/epoch_churn.py",
        "if elections and len(elections) - count >= thresholds[ELECTIONS.name]:",
        "if len(elections) - count > 0:",
        "tests/kips/test_kip_856_voter_changes.py::test_the_removal_of_the_leader_fires_no_alert",
        rows="A027",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "return parts.VoterEndpoints(id=key.id, directory_id=key.directory_id,",
        "return parts.VoterEndpoints(id=key.id, directory_id=None,",
        "tests/kips/test_kip_856_disk_replaced.py::test_three_voters_and_no_observer_are_healthy",
        rows="A047",
    ),
    Bug(
        "rules/checks/observer_could_be_voter.py",
        "        and key.id in quorum.controllers\n",
        "",
        "tests/unit/rules/test_observer_could_be_voter.py::test_an_observer_that_is_not_listed_now_is_unknown_only_if_it_is_a_registered_controller",
        rows="A080",
    ),
    Bug(
        "connectors/metadata/run_rows.py",
        "recovers = None if state == UNCHANGED_STATE else state == _RECOVERING",
        "recovers = None if state == UNCHANGED_STATE else False",
        "tests/kips/test_kip_704_recovery.py::test_records_of_unclean_elections_leave_each_leader_alone_in_sync_and_recovering",
        rows="B005",
    ),
    Bug(
        "rules/checks/no_leader.py",
        "thresholds=(hold(5.0), clear(), ANSWER_AGE, PROBE_AGE, FETCH_AGE),",
        "thresholds=(hold(0.0), clear(), ANSWER_AGE, PROBE_AGE, FETCH_AGE),",
        "tests/kips/test_kip_595_observed_elections.py::test_a_successor_that_a_resigning_leader_names_is_elected_without_an_alert",
        rows="D061",
    ),
    Bug(
        "connectors/gather/endpoint_probe.py",
        "    Reason.WRONG_CLUSTER: Answer.OTHER_CLUSTER,\n",
        "",
        "tests/unit/connectors/gather/test_endpoint_probe.py::test_a_node_that_refuses_the_cluster_id_is_of_another_cluster",
        rows="D091",
    ),
    Bug(
        "streaming/rescue/plan_output.py",
        '"rescued. New endpoints cannot replace a lost majority (KIP-1347)"',
        '"rescued"',
        "tests/kips/test_kip_1347_rescue.py::test_a_lost_majority_is_refused_and_the_plan_says_what_remains",
        rows="E093",
    ),
)
