"""In which order nodes are restarted, one after the other.

Controllers come before brokers, and the leader of the quorum after all others of its kind: each of its restarts costs
an election. The brokers of a rack follow each other: they hold different replicas of a partition, so the next one need
not wait until the one before has caught up. Of nodes that are alike, those that may be restarted now come first.
"""

from collections.abc import Mapping

from rules.answers.restart import RestartSafety
from rules.facts.quorum import Facts
from rules.model.history import NodeKind
from rules.model.identifiers import NodeId


def restart_order(facts: Facts, answers: Mapping[NodeId, RestartSafety]) -> tuple[NodeId, ...]:
    """Returns the nodes of these answers in the order in which to restart them."""
    brokers = {node for node, answer in answers.items() if NodeKind.BROKER in answer.roles}
    racks = {node: facts.quorum.brokers[node].rack or "" for node in brokers}
    # The rack of a broker that may be restarted now comes first.
    safe_racks = {racks[node] for node in brokers if answers[node].safe}

    def place(node: NodeId) -> tuple[bool, bool, bool, str, bool, NodeId]:
        rack, leads = racks.get(node, ""), node == facts.current_leader
        return node in brokers, leads, rack not in safe_racks, rack, answers[node].safe is not True, node

    return tuple(sorted(answers, key=place))
