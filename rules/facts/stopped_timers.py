"""The voters whose Raft timers may stand still, because the clock of their host was set back.

Kafka's timers count with the wall clock, and their time never goes back (org.apache.kafka.common.utils.Timer.update):
they go on when the clock is as late as it was. Until then a follower misses no leader, becomes no candidate, and
rejects the votes of others, because it "has a leader". A new leader epoch, and a new process, begin new timers.
"""

from collections.abc import Mapping

from rules.facts.node import Nodes
from rules.formatting import ms_text, utc_text
from rules.model.identifiers import NodeId


def stopped_timers(nodes: Nodes) -> Mapping[NodeId, str]:
    """Returns the voters that may not notice that the leader is lost, and why: the rest of a sentence about each.

    The clocks of followers are not seen. They are known to be set back with the leader's, or with that of the monitor's
    host, as little as not to be.
    """
    quorum = nodes.quorum
    set_back = [one for one in quorum.clocks_set_back if one.leader_epoch == quorum.leader_epoch]
    if nodes.poll is None or not set_back:
        return {}
    newest = max(set_back, key=lambda one: one.at_ms + one.by_ms)
    host = "the monitor's host" if newest.controller is None else f"controller {newest.controller}"
    why = (
        f"may not notice until {utc_text(newest.at_ms + newest.by_ms)} that the leader is lost: the clock of {host} "
        f"was set back by {ms_text(newest.by_ms)} at {utc_text(newest.at_ms)}, and Raft's timers stand still on each "
        "host whose clock was set back with it"
    )
    # By offsets: the times of the log were set back too.
    ends = [one.high_watermark for one in set_back if one.high_watermark is not None]
    started = {start.id for start in quorum.history.starts if ends and start.offset >= max(ends)}
    return dict.fromkeys(sorted(quorum.voting_ids & nodes.keys() - started - {quorum.leader_id}), why)
