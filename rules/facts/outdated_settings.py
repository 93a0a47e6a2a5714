"""Whether kraftwatch's own `bootstrap` and `security_protocol` are those of a listener that the controllers had before.

Controllers that move to another listener record it in the log before they close the former one: the VotersRecord has
each voter's listeners by name, and the registrations have the security protocol of each.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rules.facts.contact import recorded_endpoints
from rules.finding import Plain
from rules.formatting import and_join
from rules.model.identifiers import Endpoint, NodeId, at_listener
from rules.model.monitoring import ProbeAnswer, Reason
from rules.model.quorum import Quorum

_CLOSED = frozenset({Reason.REFUSED})
_NOT_REACHED = frozenset({Reason.REFUSED, Reason.UNRESOLVABLE, Reason.TIMED_OUT, Reason.UNREACHABLE})
_ANSWERS = frozenset({ProbeAnswer.THIS_CLUSTER, ProbeAnswer.NOT_ALLOWED})


@dataclass(frozen=True, slots=True, kw_only=True)
class OutdatedSettings:
    """Where the controllers listen now, by their records."""

    addresses: tuple[str, ...]
    """HOST:PORT of each voter."""
    listener: str
    protocol: str | None
    """Its security protocol; None if no controller registered one."""
    configured: tuple[str, ...]
    configured_protocol: str

    @property
    def sentence(self) -> str:
        """Returns what differs."""
        now = f" with {self.protocol}" if self.protocol else ""
        former = f"{and_join(self.configured, 4)} with {self.configured_protocol}"
        return (
            f"The controllers listen at {and_join(self.addresses, 4)}{now} now (listener {self.listener}); kraftwatch "
            f"is configured with {former}."
        )

    @property
    def evidence(self) -> Mapping[str, Plain]:
        """Returns where the controllers listen, for people."""
        return {"controllers_listen_at": [*self.addresses], "protocol_there": self.protocol}


def outdated_settings(quorum: Quorum) -> OutdatedSettings | None:
    """Returns where the controllers listen, if kraftwatch is configured for another listener or protocol.

    None also if that is not known: a configured address may be an alias of a recorded one, or the voters have no
    listener in common. The last record may not have been read when the configured listener closed: then it counts as
    closed once the controllers refuse connections there and answer at another listener.
    """
    recorded = {node: endpoints for node, endpoints in recorded_endpoints(quorum).items() if endpoints}
    if not recorded:
        return None
    own = _configured_listener(quorum, recorded)
    common = _listeners_of_all(recorded)
    if own is not None and own in common and not _all_fail(quorum, _CLOSED):
        common = [own]
    for listener in common:
        protocol = _protocol(quorum, listener)
        addresses = tuple(str(at_listener(recorded[node], listener)) for node in sorted(recorded))
        if listener == own:
            is_outdated = protocol not in (None, quorum.access.protocol)
        elif own is None or own in common:
            is_outdated = _all_fail(quorum, _NOT_REACHED) and _some_answer(quorum, addresses)
        else:
            is_outdated = True
        if is_outdated:
            return OutdatedSettings(
                addresses=addresses,
                listener=listener,
                protocol=protocol,
                configured=quorum.bootstrap,
                configured_protocol=quorum.access.protocol,
            )
    return None


def _configured_listener(quorum: Quorum, recorded: Mapping[NodeId, tuple[Endpoint, ...]]) -> str | None:
    """Returns the name of the listener that the configured addresses belong to; None if nothing records one of them."""
    configured = {address.lower() for address in quorum.bootstrap}
    registered = (controller.endpoints for controller in quorum.controllers.values())
    known = (endpoint for endpoints in (*recorded.values(), *registered) for endpoint in endpoints)
    return next((endpoint.listener for endpoint in known if str(endpoint).lower() in configured), None)


def _listeners_of_all(recorded: Mapping[NodeId, tuple[Endpoint, ...]]) -> Sequence[str]:
    """Returns the names of the listeners that every voter has: first the one that most voters dial."""
    dialled = Counter(endpoints[0].listener for endpoints in recorded.values())
    names = [name for name, _ in dialled.most_common()]
    names += [endpoint.listener for endpoints in recorded.values() for endpoint in endpoints]
    common = (name for name in names if all(at_listener(endpoints, name) for endpoints in recorded.values()))
    return [*dict.fromkeys(common)]


def _protocol(quorum: Quorum, listener: str) -> str | None:
    registered = (
        at_listener(registration.endpoints, listener) for _, registration in sorted(quorum.controllers.items())
    )
    protocols = Counter(endpoint.protocol for endpoint in registered if endpoint is not None and endpoint.protocol)
    return max(sorted(protocols), key=lambda name: protocols[name], default=None)


def _all_fail(quorum: Quorum, reasons: Collection[Reason]) -> bool:
    failing = {failure.endpoint for failure in quorum.failures if failure.reason in reasons}
    return failing.issuperset(quorum.bootstrap)


def _some_answer(quorum: Quorum, addresses: tuple[str, ...]) -> bool:
    """Whether a node answers at one of these addresses: a suspended process accepts connections as well."""
    probes = quorum.probes.values()
    return any(str(probe.endpoint) in addresses and probe.answer in _ANSWERS for probe in probes)
