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
)
