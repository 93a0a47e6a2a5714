"""How a voter follows the leader, in words."""

from rules.claims.statement import Statement, statement
from rules.claims.words import clause, leader_id, predicate
from rules.facts.following import Following
from rules.facts.node import NodeFacts, Nodes
from rules.facts.node_claims import follows_claim, in_sync_claim, leader_claim
from rules.formatting import plural, utc_text
from rules.model.identifiers import Millis, ReplicaKey


def replaced_by(nodes: Nodes, voter: NodeFacts) -> ReplicaKey | None:
    """Returns another directory of a voter's node that fetches without a vote: the voter's disk was replaced.

    None if no VotersRecord is known: `voter-disk-replaced` is not applicable then, so other rules report the voter.
    """
    return None if voter.following.fetches or nodes.quorum.committed is None else voter.replacement


def follows_text(nodes: Nodes, voter: NodeFacts) -> str:
    """Returns how it follows, with the time since which the voter lags or does not fetch if it is known."""
    match voter.following:
        case Following.IN_SYNC:
            return "in sync"
        case Following.LAGGING:
            return f"lagging{_since(nodes, voter)}"
        case Following.NOT_FETCHING | Following.UNKNOWN:
            return f"not fetching{_since(nodes, voter)}"


def follows_sentence(nodes: Nodes, voter: NodeFacts) -> Statement:
    """Returns what the voter does, as a sentence."""
    since, follows = _since(nodes, voter), follows_claim(nodes, voter)
    match voter.following:
        case Following.IN_SYNC:
            return statement(f"Voter {voter.id} ", predicate(follows), ".")
        case Following.LAGGING:
            by = "" if voter.lag is None else f", by {plural(voter.lag, 'record')}"
            return statement(
                f"Voter {voter.id} ",
                predicate(follows, lasting=bool(since)),
                f" behind leader {_leader(nodes)}{since}{by}. The path ",
                path_text(nodes, voter),
                " or the voter itself is slow.",
            )
        case Following.NOT_FETCHING | Following.UNKNOWN:
            return statement(f"Voter {voter.id} ", predicate(follows, lasting=True), f"{since}.")


def path_text(nodes: Nodes, voter: NodeFacts) -> Statement:
    """Returns the path over which the voter fetches."""
    return statement(f"voter {voter.id} -> ", leader_id(leader_claim(nodes)))


def voters_in_sync(nodes: Nodes) -> Statement:
    """Returns how many of the voters of the newest poll are in sync, as the beginning of a sentence."""
    return clause(in_sync_claim(nodes))


def _leader(nodes: Nodes) -> object:
    return None if nodes.poll is None else nodes.poll.leader_id


def _since(nodes: Nodes, voter: NodeFacts) -> str:
    """Since when the voter has lagged or not fetched, after a space; empty if a lag is of unknown age."""
    lags, poll = voter.following is Following.LAGGING, nodes.poll
    age = voter.lag_ms if lags else voter.last_fetch_age_ms
    if poll is not None and age is not None:
        return f" since {utc_text(Millis(poll.observed_at_ms - age))}"
    elected_ms = _led_since_ms(nodes, voter)
    if elected_ms is None:
        return "" if lags else f" from leader {_leader(nodes)} yet"
    return f" since controller {_leader(nodes)} took over at {utc_text(elected_ms)}"


def _led_since_ms(nodes: Nodes, voter: NodeFacts) -> Millis | None:
    """Returns the timestamp of the leader's election; None if the log no longer contains it, or its clock was set
    back."""
    row, epoch = voter.row, None if nodes.poll is None else nodes.poll.leader_epoch
    if row is not None and row.last_caught_up_ms is not None and voter.lag_ms is None:
        return None
    elections = reversed(nodes.quorum.history.elections)
    return next((one.timestamp_ms for one in elections if one.leader_epoch == epoch), None)
