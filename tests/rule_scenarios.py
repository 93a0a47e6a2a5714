"""Every rule's scene: where it fires and where it resolves, on a real quorum wherever Kafka can be made to do it.

A place is `FILE::TEST` on a real quorum, or a script in tests/scripts, which is played on a simulated one. The
pages in docs/rules say what stands here, and tests/unit/test_rule_scenarios.py holds it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RULES = "tests/kafka/test_rule_scenarios_live.py"
DISASTERS = "tests/kafka/test_disaster_scenarios.py"
JOB = "tests/job/test_fault_scenarios.py"
DRIFT = "tests/kafka/test_drift_scenarios.py"
DEMO = "tests/job/test_demo.py::test_every_expected_alert_fires_and_no_false_one"
AN_HOUR = "it stands for an hour, because no later success mends what happened"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where one rule is seen to fire and to resolve."""

    fires: str
    resolves: str
    why: str = ""
    """Why a part of it is simulated; empty where all of it is real."""

    @property
    def places(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The state an alert takes there, and where."""
        return ("firing", self.fires), ("resolved", self.resolves)

    @property
    def told(self) -> str:
        """What of it is real, in words."""
        if self.is_real:
            return "on a real quorum, where it fires and resolves"
        if self.fires.endswith(".txt"):
            return f"on no real quorum: {self.why}"
        return f"on a real quorum, where it fires; that it resolves is simulated: {self.why}"

    @property
    def is_real(self) -> bool:
        """Both happen on a real quorum."""
        return not any(place.endswith(".txt") for _, place in self.places)


def scene(place: str) -> Scene:
    """It fires and resolves in one place."""
    return Scene(fires=place, resolves=place)


SCENES: Mapping[str, Scene] = {
    "broker-fenced": scene(f"{RULES}::test_a_broker_whose_heartbeats_are_not_heard_is_fenced"),
    "committed-metadata-lost": Scene(
        fires=f"{DISASTERS}::test_a_majority_is_restored_from_old_copies",
        resolves="tests/scripts/metadata_lost.txt",
        why=AN_HOUR,
    ),
    "data-contract-broken": Scene(
        fires="tests/scripts/data_contracts.txt",
        resolves="tests/scripts/data_contracts.txt",
        why="no Kafka writes what a contract forbids; damaged journals on a real Spark are in tests/spark",
    ),
    "epoch-churn": scene(f"{RULES}::test_leader_after_leader_is_elected_and_nobody_restarted"),
    "failure-tolerance": scene(f"{RULES}::test_a_voter_falls_silent_and_then_another"),
    "forced-reconfiguration": scene(f"{DISASTERS}::test_a_voter_set_is_forced_and_news_for_a_while"),
    "ghost-registration": scene(f"{DISASTERS}::test_who_was_forced_out_stays_registered"),
    "high-watermark-stalled": scene(f"{RULES}::test_a_majority_falls_silent_and_nothing_is_committed"),
    "monitor-blind": scene("tests/job/test_bad_input.py::test_the_dns_incident_does_not_kill_the_monitor"),
    "no-leader": scene(f"{JOB}::test_the_majority_stopped_and_continued"),
    "observer-could-be-voter": scene(f"{JOB}::test_a_waiting_controller_is_promoted_with_the_printed_commands"),
    "observer-lagging": scene(f"{RULES}::test_a_broker_lives_and_does_not_fetch_the_metadata"),
    "open-transaction": Scene(
        fires="tests/scripts/open_transaction.txt",
        resolves="tests/scripts/open_transaction.txt",
        why="only a migration from ZooKeeper takes long; the one at the first start ends at once, and a new leader "
        "aborts what it finds open",
    ),
    "partition-stuck-recovering": scene(DEMO),
    "quorum-shape": scene(f"{RULES}::test_a_removal_that_does_not_commit_and_the_even_number_it_leaves"),
    "raft-invariant-broken": Scene(
        fires=f"{DISASTERS}::test_a_majority_is_restored_from_old_copies",
        resolves="tests/scripts/metadata_lost_without_log_access.txt",
        why=AN_HOUR,
    ),
    "recovery-invariant-broken": Scene(
        fires="tests/scripts/recovering_with_follower_in_isr.txt",
        resolves="tests/scripts/recovering_with_follower_in_isr.txt",
        why="Kafka's controllers refuse an ISR of more while a partition is RECOVERING",
    ),
    "snapshot-stale": scene(f"{DRIFT}::test_nodes_of_two_versions_and_a_log_without_snapshots"),
    "stale-voter-endpoint": scene(DEMO),
    "unclean-election": scene(f"{DRIFT}::test_an_unclean_election_is_news_and_resolves_by_itself"),
    "version-drift": scene(f"{DRIFT}::test_nodes_of_two_versions_and_a_log_without_snapshots"),
    "views-disagree": scene(f"{DRIFT}::test_a_controller_that_hears_none_of_the_others"),
    "voter-change-stuck": scene(f"{RULES}::test_a_removal_that_does_not_commit_and_the_even_number_it_leaves"),
    "voter-disk-replaced": scene(
        "tests/job/test_combined.py::test_its_disk_replaced_is_one_alert_mended_by_the_printed_commands"
    ),
    "voter-lagging": scene(f"{RULES}::test_a_voter_falls_silent_and_then_another"),
}
