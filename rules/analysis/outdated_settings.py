"""Whether kraftwatch's own `bootstrap` and `security_protocol` are those of a listener that the controllers had before.

Controllers that move to another listener record it in the log before they close the former one: the VotersRecord has
each voter's listeners by name, and the registrations have the security protocol of each.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from rules.analysis.leadership import controller_endpoints
from rules.finding import Plain
from rules.formatting import and_join
from rules.model.identifiers import Endpoint, NodeId, at_listener
from rules.model.monitoring import Connection, Reason
from rules.model.quorum import Quorum

_NOT_REACHED = frozenset({Reason.REFUSED, Reason.UNRESOLVABLE, Reason.TIMED_OUT, Reason.UNREACHABLE})


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
    listener in common.
    """
    recorded = {node: endpoints for node, endpoints in controller_endpoints(quorum).items() if endpoints}
    if not recorded:
        return None
    own = _configured_listener(quorum, recorded)
    listener = _listener_of_all(recorded, own)
    if listener is None:
        return None
    protocol = _protocol(quorum, listener)
    if listener == own and protocol in (None, quorum.access.protocol):
        return None
    addresses = tuple(str(at_listener(recorded[node], listener)) for node in sorted(recorded))
    if own is None and not (_none_is_reached(quorum) and _some_listen(quorum, addresses)):
        return None
    return OutdatedSettings(
        addresses=addresses,
        listener=listener,
        protocol=protocol,
        configured=quorum.bootstrap,
        configured_protocol=quorum.access.protocol,
    )


def _configured_listener(quorum: Quorum, recorded: Mapping[NodeId, tuple[Endpoint, ...]]) -> str | None:
    """Returns the name of the listener that the configured addresses belong to; None if nothing records one of them."""
    configured = {address.lower() for address in quorum.bootstrap}
    registered = (controller.endpoints for controller in quorum.controllers.values())
    known = (endpoint for endpoints in (*recorded.values(), *registered) for endpoint in endpoints)
    return next((endpoint.listener for endpoint in known if str(endpoint).lower() in configured), None)


def _listener_of_all(recorded: Mapping[NodeId, tuple[Endpoint, ...]], own: str | None) -> str | None:
    """Returns the name of a listener that every voter has: the configured one, else the one that most voters dial."""
    dialled = Counter(endpoints[0].listener for endpoints in recorded.values())
    names = [name for name, _ in dialled.most_common()]
    names += [endpoint.listener for endpoints in recorded.values() for endpoint in endpoints]
    common = (name for name in names if all(at_listener(endpoints, name) for endpoints in recorded.values()))
    found = [*dict.fromkeys(common)]
    return own if own in found else next(iter(found), None)


def _protocol(quorum: Quorum, listener: str) -> str | None:
    registered = (
        at_listener(registration.endpoints, listener) for _, registration in sorted(quorum.controllers.items())
    )
    protocols = Counter(endpoint.protocol for endpoint in registered if endpoint is not None and endpoint.protocol)
    return max(sorted(protocols), key=lambda name: protocols[name], default=None)


def _none_is_reached(quorum: Quorum) -> bool:
    failing = {failure.endpoint for failure in quorum.failures if failure.reason in _NOT_REACHED}
    return failing.issuperset(quorum.bootstrap)


def _some_listen(quorum: Quorum, addresses: tuple[str, ...]) -> bool:
    probes = quorum.probes.values()
    return any(str(probe.endpoint) in addresses and probe.connection is Connection.ACCEPTED for probe in probes)
