"""Builds the `Quorum` that rules evaluate from a `MachineState`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from rules.model.history import OpenTransaction
from rules.model.identifiers import Endpoint, Millis, NodeId, Offset, in_dial_order
from rules.model.membership import VoterSet
from rules.model.monitoring import LeaderView
from rules.model.quorum import Quorum
from rules.model.replica import Poll
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.image import Image
from streaming.replay.machine_state import MachineState
from streaming.replay.recent_history import start_of

_T = TypeVar("_T")

_IDLE_MS = 10_000
"""A log with NoOps is never idle for so long."""


def build_quorum(state: MachineState, settings: ClusterSettings) -> Quorum:
    """Returns the state as one frozen value."""
    image, leadership = state.visible_image, state.leadership
    newest_ms, idle_ms = image.newest_timestamp_ms, _idle_ms(state)
    return Quorum(
        cluster=settings.name,
        cluster_id=state.cluster_id,
        now_ms=state.now_ms,
        watched_since_ms=state.probe_state.watched_since_ms,
        ages=settings.ages,
        vantage=settings.vantage,
        broker_min_isr=settings.min_isr,
        default_min_isr=image.min_isr,
        access=settings.access,
        kraft_version=image.kraft,
        metadata_version=image.metadata_version,
        features=image.features,
        committed=_committed(image),
        leader_id=leadership.leader(_configured_controllers(settings.bootstrap, state.probe_state.leader_views)),
        leader_epoch=leadership.epoch,
        high_watermark=leadership.high_watermark,
        high_watermark_since_ms=leadership.high_watermark_since_ms,
        last_offset=image.last_offset,
        log_complete=image.complete and not state.undecodable,
        newest_timestamp_ms=None if newest_ms is None else Millis(newest_ms + idle_ms),
        idle_ms=idle_ms,
        silent_ms=_silent_ms(state),
        log_fetched_at_ms=state.log_fetched_at_ms,
        poll=_poll(state.poll_history.newest, image),
        histories={replica.history.key: replica.history for replica in state.poll_history.replicas},
        clocks_set_back=state.poll_history.clocks_set_back,
        commit_wait=state.poll_history.waits.seen(),
        removals=state.removals,
        controllers=image.controllers,
        brokers=image.brokers,
        recovering=image.recovering,
        offline=image.offline,
        under_min_isr=image.under_min_isr,
        needed_replicas=image.needed_replicas,
        out_of_sync={replicas.broker: replicas for replicas in image.out_of_sync},
        brokers_down={partitions.broker: partitions for partitions in image.brokers_down},
        offline_directories=image.offline_directories,
        reassignments=image.reassignments,
        stricter_min_isrs={
            broker: value
            for broker, value in sorted(image.broker_min_isrs.items())
            if broker in image.brokers and value > (image.min_isr or 1)
        },
        throttles=tuple(image.throttles[name] for name in sorted(image.throttles)),
        zk_migration=image.zk_migration,
        open_transaction=_open_transaction(state),
        unreplayable=image.unreplayable,
        history=image.history,
        probes=_by_name(state.probe_state.probes),
        addresses=state.probe_state.addresses,
        leader_views=_by_name(state.probe_state.leader_views),
        unanswered_since=state.probe_state.unanswered_since,
        late_answers=state.probe_state.late_answers,
        failures=state.probe_state.sorted_failures,
        invariant_violations=state.leadership.invariants.violations,
        contract_violations=state.contract_violations.violations,
        unknown_records=tuple(
            replace(image.unknown_records[name], count=_rounded_down(image.unknown_records[name].count))
            for name in sorted(image.unknown_records)
        ),
        bootstrap=settings.bootstrap,
        witnesses=tuple(row for _, row in sorted(state.probe_state.witnesses.items())),
    )


def _configured_controllers(bootstrap: tuple[str, ...], views: Mapping[str, LeaderView]) -> int:
    """Returns how many controllers are configured: one that answers at several of the addresses counts once."""
    nodes = {address: view.node for address, view in views.items() if view.node is not None}
    return len({nodes.get(address, address) for address in bootstrap})


def _by_name(observed: Mapping[str, _T]) -> Mapping[str, _T]:
    """Returns the mapping in an order that stays: in the state, each observation moves its entry to the end."""
    return {name: observed[name] for name in sorted(observed)}


def _rounded_down(count: int) -> int:
    """Returns a count with its first two digits, so that a text that says it changes seldom."""
    unit = int("1" + "0" * (len(str(count)) - 2)) if count > 99 else 1
    return count // unit * unit


def _idle_ms(state: MachineState) -> int:
    """Returns how much later than the newest record a leader answered whose log ends with it."""
    poll, image, since_ms = state.poll_history.newest, state.visible_image, state.leadership.high_watermark_since_ms
    if poll is None or poll.leader is None or since_ms is None or poll.observed_at_ms - since_ms <= _IDLE_MS:
        return 0
    last, newest_ms = image.last_offset, image.newest_timestamp_ms
    if last is None or newest_ms is None or poll.leader.log_end_offset != last + 1:
        return 0
    return max(0, state.log_clock.latest_ms(poll.observed_at_ms) - newest_ms)


def _silent_ms(state: MachineState) -> int | None:
    last = state.visible_image.last_offset
    return state.append_times.silent_ms(state.poll_history.newest, None if last is None else last + 1)


def _committed(image: Image) -> VoterSet | None:
    """Returns the committed voters; each voter's first endpoint is the one that other voters dial."""
    if image.committed is None or all(len(voter.endpoints) < 2 for voter in image.committed.voters):
        return image.committed
    voters = (
        replace(voter, endpoints=_in_dial_order(image, voter.key.id, voter.endpoints))
        for voter in image.committed.voters
    )
    return replace(image.committed, voters=tuple(voters))


def _poll(poll: Poll | None, image: Image) -> Poll | None:
    """Returns the newest poll; each node's first endpoint is the one that voters dial."""
    if poll is None or all(len(endpoints) < 2 for endpoints in poll.nodes.values()):
        return poll
    nodes = {node: _in_dial_order(image, node, endpoints) for node, endpoints in poll.nodes.items()}
    return replace(poll, nodes=nodes)


def _in_dial_order(image: Image, node: NodeId, endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    registration = image.controllers.get(node) or next(
        (image.controllers[controller] for controller in sorted(image.controllers)), None
    )
    return in_dial_order(endpoints, registration.endpoints if registration else ())


def _open_transaction(state: MachineState) -> OpenTransaction | None:
    """Returns the log's open transaction; None while rules see an older image: the transaction may have ended since."""
    transaction = state.log.transaction
    if transaction is None or state.visible_image is not state.log.image:
        return None
    known = state.visible_image.controllers
    return OpenTransaction(
        name=transaction.name,
        since_offset=Offset(transaction.began.offset),
        since_timestamp_ms=Millis(transaction.began.timestamp_ms),
        records=len(transaction.held),
        starts=tuple(
            start for one in transaction.controllers if (start := start_of(one, known.get(one.id))) is not None
        ),
    )
