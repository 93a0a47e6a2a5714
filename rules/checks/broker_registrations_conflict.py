"""Registrations contradict each other: two nodes advertise one address, or a broker lacks a listener or a rack.

What it means
    Kafka registers a broker with the advertised.listeners that it names, and does not compare them with those of the
    others. Both are alive, and no metric of Kafka shows it.

    - Two brokers advertise one address, or a broker that of a controller's listener. Requests for the partitions that
      the wrong one leads fail or time out, from clients and from the brokers that replicate them. Two controllers with
      one address cannot both be reached by the others.
    - A broker advertises a loopback address (localhost, 127.0.0.1, ::1) at a listener at which others advertise hosts:
      whoever is sent there connects to its own host. Kafka uses the host of `listeners` if advertised.listeners is not
      set.
    - Brokers have a listener of one name with different security protocols. A client has one protocol, so the
      connections to some of them fail, and between the brokers if it is the inter.broker.listener.name.
    - A broker has no listener of a name that most others have. Clients that use that listener get no address of the
      leader for the partitions that this broker leads (LISTENER_NOT_FOUND, LEADER_NOT_AVAILABLE).
    - Some brokers have a rack (broker.rack) and others none. Kafka counts all without one as one rack: such a broker
      gets more replicas than the others, and may be in a rack that has a replica already.
    - A broker registered with another rack than before, in which there are other brokers already, as when a pod is
      started in another zone. Kafka does not move its replicas: those of one partition may be in one rack now.

    Only brokers that are alive are compared, and controllers that fetch. The threshold `roll` allows for what a rolling
    restart adds.

What to do
    1. One address of two nodes: find out which of them listens there (node.id in its configuration). Correct the
       advertised.listeners of the other one, and restart it. Often it is the one that registered last, and the broker
       if the other one is a controller.
    2. A loopback address: name the broker's host in advertised.listeners, and restart it.
    3. Different protocols: give the listener one protocol in listener.security.protocol.map of all brokers. To change
       it without a pause, add a listener with another name instead.
    4. A missing listener: add it to listeners, advertised.listeners and listener.security.protocol.map, and restart the
       broker.
    5. A missing rack: set broker.rack of these brokers, and restart them in turn.
    6. Another rack: start the broker in its former rack, or have the replicas placed again for the racks as they are.

What not to do
    Do not unregister one of the brokers: it is alive, and registers again. Do not move its partitions before you know
    which of both clients reach.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, TypeAlias

from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Finding, Plain, RuleResult, Severity, Threshold, Thresholds, hold
from rules.formatting import and_join, numbered, utc_text
from rules.model.history import NodeKind
from rules.model.identifiers import Millis, NodeId
from rules.model.membership import BrokerRegistration, ControllerRegistration
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_status
from rules.remedies.step import may_restart, restarts
from rules.rule import Rule

ROLL = Threshold(
    name="roll",
    default=3_600.0,
    meaning="how long a broker may lack a listener that most others have, or a rack: a rolling restart that adds one "
    "takes about as long",
)
_RACK_MS: Final = Millis(86_400_000)
"""For how long a broker's other rack is reported: no record shows that replicas are placed for it."""
_Registration: TypeAlias = BrokerRegistration | ControllerRegistration
_MOST_LISTED = 8
"""How many nodes of one address the evidence lists."""


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each address of several brokers, and one for each broker that lacks a listener."""
    alive = [broker for _, broker in sorted(facts.quorum.brokers.items()) if broker.alive]
    fetching = [
        controller
        for node, controller in sorted(facts.quorum.controllers.items())
        if facts.nodes[node].following.fetches
    ]
    at_address: dict[tuple[str, int], list[_Registration]] = {}
    registered: list[_Registration] = [*alive, *fetching]
    for node in registered:
        for place in {(endpoint.host.lower(), endpoint.port): None for endpoint in node.endpoints}:
            at_address.setdefault(place, []).append(node)
    for place, nodes in sorted(at_address.items()):
        if len({node.id for node in nodes}) > 1:
            yield _one_address(facts, nodes, place)
    counts = Counter(name for broker in alive for name in _listeners(broker))
    usual = {name for name, count in counts.items() if count > len(alive) / 2}
    for broker in alive:
        lacking = sorted(usual - _listeners(broker))
        if lacking:
            yield _without_listener(alive, broker, lacking, thresholds)
    yield from _loopback(alive)
    yield from _unlike_protocols(alive, thresholds)
    yield from _without_rack(alive, thresholds)
    newest = facts.quorum.newest_timestamp_ms
    for broker in alive:
        since = broker.rack_since_timestamp_ms
        if newest is not None and since is not None and newest - since < _RACK_MS:
            yield from _in_another_rack(alive, broker, since)


def _listeners(broker: BrokerRegistration) -> frozenset[str]:
    """Returns the names of its listeners in capitals: Kafka compares them without regard to case."""
    return frozenset(endpoint.listener.upper() for endpoint in broker.endpoints)


def _one_address(facts: Facts, nodes: list[_Registration], place: tuple[str, int]) -> Finding:
    brokers = [node for node in nodes if isinstance(node, BrokerRegistration)]
    controllers = [node.id for node in nodes if isinstance(node, ControllerRegistration)]
    # A controller that fetches is where the others dial it: a broker there has the wrong address.
    newest = max(brokers or nodes, key=lambda one: one.at.offset)
    kind = NodeKind.BROKER if brokers else NodeKind.CONTROLLER
    names = and_join(
        [
            *([numbered("broker", [broker.id for broker in brokers])] if brokers else []),
            *([numbered("controller", controllers)] if controllers else []),
        ]
    )
    address = next(str(endpoint) for endpoint in nodes[0].endpoints if (endpoint.host.lower(), endpoint.port) == place)
    lost = "the partitions of the others" if brokers else "the others"
    return Finding(
        subject=Subject("endpoint", address),
        severity=Severity.WARNING,
        summary=f"{names.capitalize()} advertise one address, {address}. One process listens there: requests for "
        f"{lost} fail or time out. {kind.capitalize()} {newest.id} registered last"
        f"{' of the brokers' if controllers and brokers else ''}, at {utc_text(newest.at.timestamp_ms)}.",
        evidence={
            "address": address,
            "brokers": [broker.id for broker in brokers[:_MOST_LISTED]],
            "number_of_brokers": len(brokers),
            "controllers": [*controllers[:_MOST_LISTED]],
            "endpoints": {str(node.id): _endpoints(node) for node in nodes[:_MOST_LISTED]},
            "registered_at": {str(node.id): utc_text(node.at.timestamp_ms) for node in nodes[:_MOST_LISTED]},
        },
        remedy=(
            f"# Find out which of {names} listens at {address}: node.id in the configuration of the process there",
            may_restart(
                f"# Give the other one an address of its own in advertised.listeners ({kind} {newest.id} registered "
                "last), and restart it",
                newest.id,
            ),
            "# Check with a client that the partitions of both can be written and read"
            if len(brokers) > 1
            else f"# Check with a client that the partitions of broker {newest.id} can be written and read"
            if brokers
            else describe_status(facts),
        ),
    )


def _loopback(alive: list[BrokerRegistration]) -> Iterable[Finding]:
    """Yields the brokers that advertise a loopback address where others advertise a host."""
    hosts = {endpoint.listener.upper() for one in alive for endpoint in one.endpoints if not endpoint.is_loopback}
    for broker in alive:
        wrong = [one for one in broker.endpoints if one.is_loopback and one.listener.upper() in hosts]
        if wrong:
            places = and_join([f"{endpoint.listener}://{endpoint}" for endpoint in wrong])
            yield Finding(
                subject=Subject("address of broker", broker.id),
                severity=Severity.WARNING,
                summary=f"Broker {broker.id} advertises {places}, a loopback address: whoever is sent there connects "
                "to its own host. Requests for the partitions that it leads fail from other hosts.",
                evidence={
                    "broker": broker.id,
                    "endpoints": _endpoints(broker),
                    "registered_at": utc_text(broker.at.timestamp_ms),
                },
                remedy=(
                    restarts(
                        f"# Name the host of broker {broker.id} in its advertised.listeners, as the other brokers do, "
                        "and restart it",
                        broker.id,
                    ),
                    f"# Check with a client on another host that the partitions of broker {broker.id} can be written "
                    "and read",
                ),
            )


def _unlike_protocols(alive: list[BrokerRegistration], thresholds: Thresholds) -> Iterable[Finding]:
    """Yields the listeners that brokers have with different security protocols."""
    having: dict[str, dict[str, list[NodeId]]] = {}
    for broker in alive:
        for endpoint in broker.endpoints:
            if endpoint.protocol is not None:
                having.setdefault(endpoint.listener.upper(), {}).setdefault(endpoint.protocol, []).append(broker.id)
    for listener, protocols in sorted(having.items()):
        if len(protocols) > 1:
            texts = [f"{one} at {numbered('broker', nodes, _MOST_LISTED)}" for one, nodes in sorted(protocols.items())]
            fewest = min(protocols.values(), key=len)
            yield Finding(
                subject=Subject("listener", listener),
                severity=Severity.WARNING,
                summary=f"Listener {listener} has different security protocols: {and_join(texts)}. A client that uses "
                "one of them cannot connect to all brokers.",
                evidence={
                    "listener": listener,
                    "protocols": {one: [*nodes[:_MOST_LISTED]] for one, nodes in sorted(protocols.items())},
                },
                remedy=(
                    restarts(
                        f"# Give listener {listener} the same protocol in listener.security.protocol.map of all "
                        f"brokers, and restart {numbered('broker', fewest, _MOST_LISTED)}"
                        f"{' one after the other' if len(fewest) > 1 else ''}",
                        *fewest,
                    ),
                    "# If the protocol of all is being changed, go on with their rolling restart",
                ),
                hold_ms=thresholds.ms(ROLL.name),
            )


def _without_listener(
    alive: list[BrokerRegistration], broker: BrokerRegistration, lacking: list[str], thresholds: Thresholds
) -> Finding:
    names = f"{'listener' if len(lacking) == 1 else 'listeners'} {and_join(lacking)}"
    having = sum(_listeners(one).issuperset(lacking) for one in alive)
    return Finding(
        subject=Subject("broker", broker.id),
        severity=Severity.WARNING,
        summary=f"Broker {broker.id} has no {names}, which {having} of {len(alive)} brokers have. Clients that use it "
        "get no address of the leader for the partitions that this broker leads.",
        evidence={
            "broker": broker.id,
            "lacks": [*lacking],
            "endpoints": _endpoints(broker),
            "brokers_with_it": having,
            "registered_at": utc_text(broker.at.timestamp_ms),
        },
        remedy=(
            restarts(
                f"# Add {names} to listeners, advertised.listeners and listener.security.protocol.map of broker "
                f"{broker.id}, and restart it",
                broker.id,
            ),
            "# If the others are to lose it, go on with their rolling restart",
        ),
        hold_ms=thresholds.ms(ROLL.name),
    )


def _without_rack(alive: list[BrokerRegistration], thresholds: Thresholds) -> Iterable[Finding]:
    without = [broker.id for broker in alive if broker.rack is None]
    having = len(alive) - len(without)
    racks = sorted({broker.rack for broker in alive if broker.rack is not None})
    if without and racks:
        names = numbered("broker", without, _MOST_LISTED)
        yield Finding(
            subject=Subject("racks"),
            severity=Severity.WARNING,
            summary=f"{names.capitalize()} {'has' if len(without) == 1 else 'have'} no rack, which "
            f"{having} of {len(alive)} brokers {'has' if having == 1 else 'have'}. Kafka places new replicas as if "
            "the brokers without one were one more rack.",
            evidence={
                "without_rack": [*without[:_MOST_LISTED]],
                "number_without_rack": len(without),
                "racks": [*racks[:_MOST_LISTED]],
                "number_of_racks": len(racks),
            },
            remedy=(
                f"# Set broker.rack of {names} to the rack or zone, and restart one after the other",
                "# If the others are to lose theirs, go on with their rolling restart",
            ),
            starts=tuple(without),
            hold_ms=thresholds.ms(ROLL.name),
        )


def _in_another_rack(alive: list[BrokerRegistration], broker: BrokerRegistration, since: Millis) -> Iterable[Finding]:
    """Yields a finding if the rack has other brokers that were not in its former rack too."""
    former, rack = broker.former_rack, broker.rack
    if former is None or rack is None:
        return
    others = [
        one.id
        for one in alive
        if one.rack == rack and one.id != broker.id and former not in (one.rack, one.former_rack)
    ]
    if others:
        yield Finding(
            subject=Subject("rack of broker", broker.id),
            severity=Severity.WARNING,
            summary=f"Broker {broker.id} has been in rack {rack} since {utc_text(since)}, and was in {former} before. "
            f"{numbered('Broker', others, _MOST_LISTED)} {'is' if len(others) == 1 else 'are'} there too: replicas of "
            "one partition may be in one rack now.",
            evidence={
                "broker": broker.id,
                "rack": rack,
                "former_rack": former,
                "others_in_the_rack": [*others[:_MOST_LISTED]],
                "since": utc_text(since),
            },
            remedy=(
                restarts(
                    f"# If it should not have changed, start broker {broker.id} in rack {former}, with its log "
                    "directories",
                    broker.id,
                ),
                "# Otherwise have the replicas placed for the racks as they are: kafka-reassign-partitions.sh "
                "--generate for its topics, and then --execute",
            ),
        )


def _endpoints(node: _Registration) -> list[Plain]:
    return [f"{endpoint.listener}://{endpoint}" for endpoint in node.endpoints]


def _resolved(facts: Facts, subject: Subject) -> str:
    if subject.kind == "listener":
        return f"The brokers that are alive have listener {subject.name} with one security protocol, or none has it."
    if subject.kind == "endpoint":
        return f"One node at most advertises {subject.name}."
    if subject.kind == "racks":
        return "All brokers that are alive have a rack, or none has."
    if subject.node not in facts.quorum.brokers:
        return f"Broker {subject.node} is not registered."
    if subject.kind == "address of broker":
        return f"Broker {subject.node} advertises no loopback address where others advertise hosts, or is fenced."
    if subject.kind == "rack of broker":
        rack = facts.quorum.brokers[subject.node].rack
        return f"Broker {subject.node} is in {'no rack' if rack is None else f'rack {rack}'}, or changed it long ago."
    return f"Broker {subject.node} has the listeners that most brokers have, or is fenced."


RULE = Rule(
    title="Registrations of brokers contradict each other",
    resolved=_resolved,
    hold=hold(60.0, "a broker that is restarted with another address registers within seconds"),
    further_thresholds=(ROLL,),
    needs=(Need.CURRENT_LOG,),
    without_leader=True,
)
