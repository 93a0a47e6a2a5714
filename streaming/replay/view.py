"""The view: what a machine knows, as the one frozen value that rules look at."""

from typing import TYPE_CHECKING

from rules.quorum import Quorum

if TYPE_CHECKING:
    from streaming.replay.machine import Machine


def quorum(machine: "Machine") -> Quorum:
    """All that the machine knows now, frozen."""
    shown, leadership = machine.shown, machine.leadership
    return Quorum(
        cluster=machine.cluster,
        cluster_id=machine.cluster_id,
        now_ms=machine.now_ms,
        vantage=machine.vantage,
        kraft_version=shown.kraft,
        metadata_version=shown.metadata_version,
        committed=shown.committed,
        leader_id=leadership.leader(len(machine.bootstrap)),
        leader_epoch=leadership.epoch,
        high_watermark=leadership.high_watermark,
        last_offset=shown.last_offset,
        newest_timestamp_ms=shown.newest_timestamp_ms,
        log_seen_at_ms=machine.log_seen_at_ms,
        poll=machine.polls.newest,
        histories={history.key: history for history in machine.polls.histories},
        removals=machine.removals,
        controllers=shown.controllers,
        brokers=shown.brokers,
        recovering=shown.recovering,
        probes=machine.looks.probes,
        addresses=machine.looks.addresses,
        failures=machine.looks.standing,
        bootstrap=machine.bootstrap,
    )
