"""Incidents: for each rule, what happens in a healthy quorum so that the rule's alert must fire, and later resolve."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tests.simulation import metadata_incidents, quorum_incidents
from tests.simulation.incident_scene import IncidentScene


@dataclass(frozen=True, slots=True)
class Incident:
    """One incident. It yields, after each step, how long it waits in milliseconds."""

    name: str
    happen: Callable[[IncidentScene], Iterator[int]]
    rules: tuple[str, ...]
    """The rules whose alerts must fire."""
    controllers: tuple[int, ...] = (3, 5)
    """In how many controllers it is possible."""
    static: bool = False
    """Whether it is possible in a static quorum too."""

    def suits(self, controllers: int, *, static: bool) -> bool:
        """Returns whether it is possible in this quorum."""
        return controllers in self.controllers and (self.static or not static)


SEVERAL = (3, 4, 5, 6)
ANY = (1, *SEVERAL)
_ALL = (
    Incident("broker loses heartbeats", metadata_incidents.fence_broker, ("broker-fenced",), ANY, static=True),
    Incident("broker flaps", metadata_incidents.flap_broker, ("broker-flapping",), ANY, static=True),
    Incident("certificates expire soon", quorum_incidents.let_certificates_expire, ("certificate-expiring",), SEVERAL),
    Incident("majority restored from old copies", metadata_incidents.lose_metadata, ("committed-metadata-lost",)),
    Incident("record damaged", metadata_incidents.damage_record, ("data-contract-broken",), ANY, static=True),
    Incident("node id used twice", metadata_incidents.register_copy, ("duplicate-node-id",), static=True),
    Incident("leader resigns repeatedly", metadata_incidents.churn, ("epoch-churn",), (3, 5), static=True),
    Incident("half of the reserve stops", quorum_incidents.stop_reserve, ("failure-tolerance",), (3, 5), static=True),
    Incident("voter set forced", metadata_incidents.force_voters, ("forced-reconfiguration",), (5,)),
    Incident("registration left behind", metadata_incidents.leave_registration, ("ghost-registration",), (3, 4)),
    Incident(
        "disks of the followers full", quorum_incidents.fill_disks, ("high-watermark-stalled",), (3, 5), static=True
    ),
    Incident("leader's clock set", quorum_incidents.set_leader_clock, ("leader-clock-skew",), ANY, static=True),
    Incident("monitor cut off", quorum_incidents.cut_monitor_off, ("monitor-blind",), ANY, static=True),
    Incident("permission for the log withdrawn", quorum_incidents.deny_log, ("monitor-blind",), ANY, static=True),
    Incident("resolver fails", quorum_incidents.break_resolver, ("monitor-blind",), ANY),
    Incident(
        "controllers cut off from each other",
        quorum_incidents.separate_controllers,
        ("no-leader",),
        SEVERAL,
        static=True,
    ),
    Incident("disk cloned", quorum_incidents.clone_disk, ("node-records-conflict",), (3, 4)),
    Incident(
        "controller restarts again and again", metadata_incidents.restart_again, ("node-restarting",), static=True
    ),
    Incident("other security protocol", quorum_incidents.change_protocol, ("node-records-conflict",)),
    Incident("observer waits", quorum_incidents.add_observer, ("observer-could-be-voter",), (3, 4)),
    Incident("broker stops fetching", quorum_incidents.stop_broker_fetches, ("observer-lagging",), ANY, static=True),
    Incident(
        "broker makes no progress", quorum_incidents.stop_broker_progress, ("observer-lagging",), ANY, static=True
    ),
    Incident("transaction left open", metadata_incidents.leave_transaction, ("open-transaction",), ANY, static=True),
    Incident(
        "leader elected uncleanly",
        metadata_incidents.elect_uncleanly,
        ("partition-stuck-recovering", "unclean-election"),
        ANY,
        static=True,
    ),
    Incident("voter removed", quorum_incidents.remove_voter, ("quorum-shape",)),
    Incident(
        "impostor answers polls", quorum_incidents.impersonate_leader, ("raft-invariant-broken",), (3, 5), static=True
    ),
    Incident(
        "ISR grows while recovering", metadata_incidents.grow_isr, ("recovery-invariant-broken",), ANY, static=True
    ),
    Incident("snapshots fail", metadata_incidents.stop_snapshots, ("snapshot-stale",), ANY, static=True),
    Incident("recorded endpoint breaks", quorum_incidents.break_endpoint, ("stale-voter-endpoint",)),
    Incident("upgrade half done", metadata_incidents.upgrade_half, ("version-drift",), (3, 5), static=True),
    Incident("voter cut off", quorum_incidents.isolate_voter, ("views-disagree",), (3, 5), static=True),
    Incident("voter change not committed", quorum_incidents.block_voter_change, ("voter-change-stuck",)),
    Incident("disk replaced", quorum_incidents.replace_disk, ("voter-disk-replaced",)),
    Incident("voter stops", quorum_incidents.stop_voter, ("voter-lagging",), (5,), static=True),
    Incident(
        "log restored from an old copy", quorum_incidents.restore_log, ("voter-log-regressed",), (3, 5), static=True
    ),
)
INCIDENTS: Mapping[str, Incident] = {each.name: each for each in _ALL}
