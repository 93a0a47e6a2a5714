"""Bugs against the plain statement of a row of the sample of seed 383, in any of the KIPs.

The tests that cite the row did not notice them at first. `sampled_rows` says how the rows were drawn.
"""

from tests.bugs.bug import Bug

BUGS = (
    Bug(
        "streaming/rescue/rescue_plan.py",
        ("same = len({one.voters.voters for one in self.disks}) == 1\n        return survival"),
        ("same = True\n        return survival"),
        "tests/kips/test_kip_1347_brokers_and_views.py::test_voters_are_only_started_if_all_disks_hold_the_same_voters",
        rows="A009",
    ),
    Bug(
        "rules/analysis/voter_status.py",
        "return sum(status.activity is VoterActivity.IN_SYNC for status in statuses)",
        "return sum(status.activity is not VoterActivity.NOT_FETCHING for status in statuses)",
        "tests/kips/test_kip_856_voter_changes.py::test_a_pending_change_waits_for_a_majority_of_the_new_set",
        rows="A024",
    ),
    Bug(
        "rules/remedies/remedy_commands.py",
        "return (known and poll.voter_keys != committed.keys) or",
        "return (known and len(poll.voter_keys) != len(committed.keys)) or",
        "tests/kips/test_kip_856_voter_changes.py::test_while_a_change_is_pending_every_remedy_says_to_start_no_other",
        rows="A072",
    ),
    Bug(
        "streaming/replay/image.py",
        "age = max(0, (following.newest_timestamp_ms or timestamp_ms) - timestamp_ms)",
        "age = 0",
        "tests/unit/streaming/replay/test_log_replay.py::test_removals_of_one_observation_have_the_times_of_their_own_records",
        rows="A076",
    ),
    Bug(
        "streaming/replay/partitions.py",
        ("        leader = new_leader\n        leader_epoch = None"),
        ("        leader = new_leader\n    if leader_set or change[-1] is False:\n        leader_epoch = None"),
        "tests/unit/streaming/replay/test_log_scenarios.py::test_what_changes_with_each_observation",
        rows="B014",
    ),
    Bug(
        "streaming/replay/partitions.py",
        "last_known_elr if new_last_known_elr is None else new_last_known_elr,",
        "new_last_known_elr or (),",
        "tests/unit/streaming/replay/test_log_scenarios.py::test_what_changes_with_each_observation",
        rows="B034",
    ),
    Bug(
        "rules/analysis/electability.py",
        "alive=status.liveness is not Liveness.NOT_FETCHING,",
        "alive=status.liveness is Liveness.FETCHING,",
        "tests/kips/test_kip_856_votes.py::test_a_voter_of_which_no_fetch_is_known_counts_as_alive",
        rows="D041",
    ),
    Bug(
        "rules/model/membership.py",
        "return self.endpoints[0] if self.endpoints else None",
        "return self.endpoints[-1] if self.endpoints else None",
        "tests/kips/test_kip_1347_stale_endpoints.py::test_the_recorded_endpoint_is_the_first_one_which_voters_dial",
        rows="E004",
    ),
    Bug(
        "streaming/status/build_voters.py",
        "VoterEndpoints(id=key.id, directory_id=key.directory_id,",
        'VoterEndpoints(id=key.id, directory_id=key.directory_id or "",',
        "tests/kips/test_kip_856_gauges.py::test_voters_without_a_known_directory_are_reported_as_such",
        rows="K014",
    ),
)
