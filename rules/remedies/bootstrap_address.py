"""The addresses that a remedy's commands are sent to: a controller or a broker that probably answers.

What all findings of one quorum share is computed once (`Quorum.derived`): a finding costs no pass over all nodes.
"""

import shlex
from collections.abc import Iterable, Iterator
from itertools import chain

from rules.facts.addresses import Address
from rules.facts.quorum import Facts
from rules.model.identifiers import NodeId

UNKNOWN_BOOTSTRAP = "$BOOTSTRAP"


def controller_bootstrap(facts: Facts, *, excluding: NodeId | None = None) -> str:
    """Returns HOST:PORT of a controller that probably answers; the leader's if it is one of them.

    If no name resolves, the address that a name last resolved to is used. If all endpoints refuse, a recorded endpoint
    is used, because a controller will answer there when it is back.
    """
    address = next(_without(chain(*facts.tool_addresses), excluding), None)
    return UNKNOWN_BOOTSTRAP if address is None else shlex.quote(address)


def controller_is_usable(facts: Facts, excluding: NodeId | None) -> bool:
    """Returns whether another controller answers or may answer."""
    return next(_without(facts.tool_addresses[0], excluding), None) is not None


def _without(addresses: Iterable[Address], excluding: NodeId | None) -> Iterator[str]:
    return (address for node, address in addresses if node is None or node != excluding)


def broker_bootstrap(facts: Facts, preferred: Iterable[NodeId] = ()) -> str:
    """Returns HOST:PORT of a broker that is alive by the log: one of `preferred` if any of them is."""
    for node in chain(preferred, facts.broker_ids):
        broker = facts.quorum.brokers.get(node)
        if broker and broker.alive and broker.endpoints:
            return shlex.quote(str(broker.endpoints[0]))
    return UNKNOWN_BOOTSTRAP
