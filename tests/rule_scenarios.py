"""The scenarios of each rule: where its alert fires and where it resolves, on a real quorum wherever that is possible.

A place is `FILE::TEST` on a real quorum, or a script in tests/scripts, which runs on a simulated quorum. The pages in
docs/rules print this table; tests/unit/test_rule_scenarios.py checks it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIVE = "tests/kafka/test_rule_scenarios_live.py"
DISASTERS = "tests/kafka/test_disaster_scenarios.py"
TEXTS = "tests/kafka/test_alert_texts_live.py"
JOB = "tests/job/test_fault_scenarios.py"
FORGED = "tests/kafka/test_forged_records.py"
DRIFT = "tests/kafka/test_drift_scenarios.py"
DEMO = "tests/job/test_demo.py::test_every_expected_alert_fires_and_no_false_one"
ONE_HOUR = "the alert is active for an hour, because no later success undoes the event"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleScenario:
    """Where the alert of one rule fires and resolves."""

    fires: str
    resolves: str
    why: str = ""
    """Why a part is simulated; empty if all of it is real."""

    @property
    def places(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The state of the alert and the place, for both states."""
        return ("firing", self.fires), ("resolved", self.resolves)

    @property
    def description(self) -> str:
        """Which part is real, as text for the rule's page."""
        if self.is_real:
            return "on a real quorum, where it fires and resolves"
        if self.fires.endswith(".txt"):
            return f"not on a real quorum: {self.why}"
        return f"on a real quorum, where it fires; its resolution is simulated: {self.why}"

    @property
    def is_real(self) -> bool:
        """Whether the alert fires and resolves on a real quorum."""
        return not any(place.endswith(".txt") for _, place in self.places)


def in_one_place(place: str) -> RuleScenario:
    """Returns the scenario of an alert that fires and resolves in the same place."""
    return RuleScenario(fires=place, resolves=place)


RULE_SCENARIOS: Mapping[str, RuleScenario] = {
    "broker-fenced": in_one_place(f"{LIVE}::test_broker_without_heartbeats_is_fenced"),
    "broker-flapping": in_one_place(f"{TEXTS}::test_broker_that_is_fenced_again_and_again_fires_and_resolves"),
    "certificate-expiring": in_one_place(
        "tests/kafka/test_secured.py::test_certificate_that_expires_soon_is_one_alert_until_it_is_renewed"
    ),
    "committed-metadata-lost": RuleScenario(
        fires=f"{DISASTERS}::test_a_majority_is_restored_from_old_copies",
        resolves="tests/scripts/metadata_lost.txt",
        why=ONE_HOUR,
    ),
    "data-contract-broken": RuleScenario(
        fires="tests/scripts/data_contracts.txt",
        resolves="tests/scripts/data_contracts.txt",
        why="no Kafka writes what a contract forbids; tests/spark has damaged journals on a real Spark",
    ),
    "epoch-churn": in_one_place(f"{LIVE}::test_repeated_elections_without_restarts"),
    "failure-tolerance": in_one_place(f"{LIVE}::test_one_voter_stops_fetching_then_a_second"),
    "forced-reconfiguration": in_one_place(f"{DISASTERS}::test_forced_voter_set_fires_for_a_limited_time"),
    "ghost-registration": in_one_place(f"{DISASTERS}::test_removed_controller_stays_registered"),
    "high-watermark-stalled": in_one_place(f"{LIVE}::test_a_majority_stops_fetching_and_nothing_is_committed"),
    "monitor-blind": in_one_place("tests/job/test_bad_input.py::test_job_starts_while_no_controller_name_resolves"),
    "no-leader": in_one_place(f"{JOB}::test_paused_majority_fires_no_leader_and_resolves"),
    "node-records-conflict": in_one_place(f"{DISASTERS}::test_cloned_disk_has_one_directory_id_under_two_node_ids"),
    "observer-could-be-voter": in_one_place(f"{JOB}::test_printed_commands_promote_an_observer_controller"),
    "observer-lagging": in_one_place(f"{LIVE}::test_alive_broker_does_not_fetch_the_metadata_log"),
    "open-transaction": RuleScenario(
        fires="tests/scripts/open_transaction.txt",
        resolves="tests/scripts/open_transaction.txt",
        why="only a migration from ZooKeeper takes long; the transaction of the first start ends at once, and a new "
        "leader aborts an open one",
    ),
    "partition-stuck-recovering": in_one_place(DEMO),
    "quorum-shape": in_one_place(f"{LIVE}::test_uncommitted_voter_removal_then_even_number_of_voters"),
    "raft-invariant-broken": RuleScenario(
        fires=f"{DISASTERS}::test_a_majority_is_restored_from_old_copies",
        resolves="tests/scripts/metadata_lost_without_log_access.txt",
        why=ONE_HOUR,
    ),
    "recovery-invariant-broken": in_one_place(
        f"{FORGED}::test_recovery_without_an_election_and_with_a_follower_in_sync"
    ),
    "snapshot-stale": in_one_place(f"{DRIFT}::test_nodes_of_two_versions_and_a_log_without_snapshots"),
    "stale-voter-endpoint": in_one_place(DEMO),
    "unclean-election": in_one_place(f"{DRIFT}::test_unclean_election_fires_and_resolves_by_itself"),
    "version-drift": in_one_place(f"{DRIFT}::test_nodes_of_two_versions_and_a_log_without_snapshots"),
    "views-disagree": in_one_place(f"{DRIFT}::test_isolated_controller_reports_an_old_epoch"),
    "voter-change-stuck": in_one_place(f"{LIVE}::test_uncommitted_voter_removal_then_even_number_of_voters"),
    "voter-disk-replaced": in_one_place(
        "tests/job/test_combined.py::test_replaced_disk_is_one_alert_and_printed_commands_fix_it"
    ),
    "voter-lagging": in_one_place(f"{LIVE}::test_one_voter_stops_fetching_then_a_second"),
    "voter-log-regressed": in_one_place(f"{DISASTERS}::test_one_voter_is_restored_from_an_old_copy_of_its_log"),
}
