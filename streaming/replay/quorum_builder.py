"""The view: what a machine knows, as the one frozen value that rules look at."""

from dataclasses import replace
from typing import TYPE_CHECKING

from rules.analysis.endpoint_status import dialled_first
from rules.model.history import OpenTransaction
from rules.model.identifiers import Endpoint, Millis, NodeId, Offset
from rules.model.poll import Poll
from rules.model.quorum import Quorum
from rules.model.voter_set import VoterSet
from streaming.replay.image import Image

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
        access=machine.access,
        kraft_version=shown.kraft,
        metadata_version=shown.metadata_version,
        features=shown.features,
        committed=_committed(shown),
        leader_id=leadership.leader(len(machine.bootstrap)),
        leader_epoch=leadership.epoch,
        high_watermark=leadership.high_watermark,
        high_watermark_since_ms=leadership.high_watermark_since_ms,
        last_offset=shown.last_offset,
        newest_timestamp_ms=shown.newest_timestamp_ms,
        log_seen_at_ms=machine.log_seen_at_ms,
        poll=_poll(machine.polls.newest, shown),
        histories={history.key: history for history in machine.polls.histories},
        removals=machine.removals,
        controllers=shown.controllers,
        brokers=shown.brokers,
        recovering=shown.recovering,
        open_transaction=_open_transaction(machine),
        past=shown.past,
        probes=machine.looks.probes,
        addresses=machine.looks.addresses,
        views=machine.looks.views,
        failures=machine.looks.standing,
        violations=machine.invariants.violations,
        breaches=machine.contracts.breaches,
        bootstrap=machine.bootstrap,
    )


def _committed(shown: Image) -> VoterSet | None:
    """The committed voters, each with the endpoint first that the others dial."""
    if shown.committed is None or all(len(voter.endpoints) < 2 for voter in shown.committed.voters):
        return shown.committed
    voters = (
        replace(voter, endpoints=_dialled_first(shown, voter.key.id, voter.endpoints))
        for voter in shown.committed.voters
    )
    return replace(shown.committed, voters=tuple(voters))


def _poll(poll: Poll | None, shown: Image) -> Poll | None:
    """The newest poll, likewise."""
    if poll is None or all(len(endpoints) < 2 for endpoints in poll.nodes.values()):
        return poll
    nodes = {node: _dialled_first(shown, node, endpoints) for node, endpoints in poll.nodes.items()}
    return replace(poll, nodes=nodes)


def _dialled_first(shown: Image, node: NodeId, endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    registration = shown.controllers.get(node) or next(
        (shown.controllers[one] for one in sorted(shown.controllers)), None
    )
    return dialled_first(endpoints, registration.endpoints if registration else ())


def _open_transaction(machine: "Machine") -> OpenTransaction | None:
    """The log's open transaction, once the log is shown as far as it is read: an older one may have ended since."""
    held = machine.log.transaction
    if held is None or machine.shown is not machine.log.image:
        return None
    return OpenTransaction(
        name=held.name,
        since_offset=Offset(held.began.offset),
        since_timestamp_ms=Millis(held.began.timestamp_ms),
        records=len(held.held),
    )
