"""The words of claims: sentences are made of them, so that no text gives another answer than its claims.

A question that several sentences answer is answered here, and nowhere else: `make check` finds its words in no other
module. A clause begins in lower case and has no full stop; a predicate follows the name of the node.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from rules.claims.claim import (
    NO,
    NOBODY,
    NONE_MAY_FAIL,
    YES,
    At,
    Claim,
    Directory,
    Follows,
    Question,
    Value,
    claim,
    of_each,
)
from rules.claims.statement import Statement, statement
from rules.formatting import and_join, numbered, plural
from rules.model.identifiers import NodeId

TAKES_NO_PART: Final = "can neither vote nor lead"
NO_LEADER_ELECTED: Final = "no leader could be elected"
_QUORUM: Final[Mapping[tuple[Question, Value | None], str]] = {
    (Question.LEADER, NOBODY): "no controller leads the quorum",
    (Question.LEADER, None): "which controller leads now is not known",
    (Question.COMMITS, NO): "no metadata change is possible",
    (Question.COMMITS, YES): "commits",
    (Question.LISTS, NO): "two majorities are possible, and with them two leaders",
    (Question.FAILURES, 0): "the quorum tolerates no further failure",
    (Question.FAILURES, None): "how many more voters may fail is not known",
    (Question.ELECTABLE, YES): "if all controllers restarted now, a leader could still be elected",
    (Question.ELECTABLE, NO): f"if all controllers restarted now, {NO_LEADER_ELECTED}",
    (Question.ELECTABLE, None): "whether a leader could be elected if all controllers restarted now is not known",
}
"""What an answer says of the quorum; None: it is unknown."""
_COUNTED: Final[Mapping[Question, tuple[str, str]]] = {
    Question.REACHED: ("can be reached", "can be reached"),
    Question.RUNNING: ("runs", "run"),
    Question.ACTIVE: ("is active", "are active"),
    Question.IN_SYNC: ("is in sync", "are in sync"),
}
"""What so many voters do, if there is one voter or several."""
_NODE: Final[Mapping[tuple[Question, Value], str]] = {
    (Question.VOTER, NO): "is not a voter",
    (Question.VOTES, NO): TAKES_NO_PART,
    (Question.FOLLOWS, Follows.IN_SYNC): "is in sync",
    (Question.FOLLOWS, Follows.LAGGING): "fetches, but lags",
    (Question.FOLLOWS, Follows.NOT_FETCHING): "is not fetching",
    (Question.DIRECTORY, Directory.REPLACED): "has a new directory id and is not a voter",
    (Question.REACHES, YES): "can be reached",
    (Question.ENDPOINT, At.LISTENS): "listens",
    (Question.ENDPOINT, At.REFUSES): "refuses connections",
    (Question.ENDPOINT, At.UNRESOLVED): "does not resolve",
    (Question.ENDPOINT, At.OTHER): "is served by another process",
    (Question.ENDPOINT, At.HANGS): "serves no new connection",
}
"""What an answer says of a node, or of its endpoint."""
_SINCE: Final[Mapping[Value, str]] = {
    Follows.LAGGING: "fetches, but has lagged",
    Follows.NOT_FETCHING: "has not fetched",
}
"""The same before a time since which it is so."""
_SILENT: Final[Mapping[At, str]] = {
    At.REFUSES: "down (connections are refused)",
    At.HANGS: "hung (accepting connections, not answering)",
    At.UNREACHED: "not reached (connections time out or have no route)",
}
"""What a voter is that does not answer at all."""


def clause(one: Claim) -> Statement:
    """Returns a claim about the quorum, or who leads it."""
    return Statement(_clause(one), one)


def _clause(one: Claim) -> str:
    value = one.answer[0] if one.answer else None
    if value == Directory.COPY:
        return f"two processes run with node.id {one.node}"
    if isinstance(value, int) and one.of is not None:
        return f"{value} of {plural(one.of, 'voter')} {_COUNTED[one.question][one.of != 1]}"
    if isinstance(value, int) and one.question is Question.LEADER:
        return f"controller {value} leads"
    if value and one.question is Question.FAILURES:
        return f"the quorum tolerates {plural(int(value), 'further failure')}"
    return _QUORUM[one.question, value]


def predicate(one: Claim, *, lasting: bool = False) -> Statement:
    """Returns what a claim says of its node, or of its endpoint; `lasting`: before a time since which it is so."""
    return Statement(_SINCE[one.answer[0]] if lasting else _NODE[one.question, one.answer[0]], one)


def at(answer: At) -> str:
    """Returns what an answer says of an endpoint: of several faults, whose claims are made together."""
    return _NODE[Question.ENDPOINT, answer]


def endpoint_faults(faults: Iterable[str], claims: Iterable[Claim]) -> Statement:
    """Returns all faults of an endpoint, which are made with `at`, as the rest of a sentence about it."""
    return Statement(". The endpoint ".join(faults), *claims)


def no_leader(since: str) -> Statement:
    """Returns the first words of an outage."""
    return Statement(f"No leader{since}", claim(Question.LEADER, NOBODY))


def leader_id(one: Claim) -> Statement:
    """Returns who leads, as a name: `leader 2`."""
    return Statement(f"leader {one.answer[0] if one.answer else None}", one)


def the_leader(one: Claim) -> Statement:
    """Returns who leads, as a name: `controller 2, the leader,`."""
    return Statement(f"controller {one.answer[0]}, the leader,", one)


def it_leads(one: Claim) -> Statement:
    """Returns that the node which the sentence is about leads."""
    return Statement("it leads", one)


def elects_none(voters: int, accepting: Collection[Claim]) -> Statement:
    """Returns that no election is won, though enough voters run; `accepting`: that each of them listens."""
    if voters == 1:
        what = f"The only voter {'accepts connections and ' if accepting else ''}wins no election"
    elif accepting:
        what = f"All {voters} voters accept connections, and none of them wins an election"
    else:
        what = f"None of the {voters} voters wins an election"
    return Statement(what, claim(Question.WON, NO), *accepting)


def reached_at_most(one: Claim) -> Statement:
    """Returns how many voters can be reached where some run with a directory id that is no voter's."""
    return Statement(
        f"{one.answer[0]} of {plural(one.of or 0, 'voter')} run with their recorded directory id at most", one
    )


def no_majority_in_sync() -> Statement:
    """Returns that so few voters are in sync that the leader resigns, as the beginning of a sentence."""
    return Statement("The quorum has no majority in sync", NONE_MAY_FAIL)


def without(nodes: Sequence[NodeId]) -> Statement:
    """Returns what follows if one of these stopped too, where each of them is needed to elect a leader."""
    one = f"controller {nodes[0]}" if len(nodes) == 1 else f"any of controllers {and_join(nodes)}"
    return Statement(f"if {one} stopped too, {NO_LEADER_ELECTED}", *of_each(Question.WITHOUT, nodes, NO))


def take_no_part(nodes: Collection[NodeId]) -> Statement:
    """Returns the predicate of these voters, which can neither vote nor lead."""
    return Statement(TAKES_NO_PART, *of_each(Question.VOTES, nodes, NO))


def not_counted(node: NodeId) -> Statement:
    """Returns the clause about a voter of which it is not known whether it can vote and lead."""
    return Statement("the quorum does not count on its vote", claim(Question.VOTES, node=node))


def parts_depend(nodes: Collection[NodeId]) -> Statement:
    """Returns the clause about voters whose part in an election depends on who else is lost."""
    return Statement(
        f"whether {numbered('controller', sorted(nodes))} can vote and lead depends on which voters fail",
        *of_each(Question.VOTES, nodes),
    )


def silent(nodes: Sequence[NodeId], answer: At) -> Statement:
    """Returns what these voters are, which take part in no election: `Controllers 1 and 2 are down (...)`."""
    claims = (*of_each(Question.ENDPOINT, nodes, answer), *of_each(Question.VOTES, nodes, NO))
    return Statement(f"{controllers_are(nodes)} {_SILENT[answer]}", *claims)


def controllers_are(nodes: Sequence[NodeId]) -> str:
    """Returns `Controller 1 is`, or `Controllers 1 and 2 are`."""
    return f"Controller {nodes[0]} is" if len(nodes) == 1 else f"Controllers {and_join(nodes)} are"


def unresolved(nodes: Sequence[NodeId]) -> Statement:
    """Returns which voters' names do not resolve, as a sentence."""
    names, do = ("name", "does") if len(nodes) == 1 else ("names", "do")
    return Statement(
        f"The recorded {names} of {numbered('controller', nodes)} {do} not resolve.",
        *of_each(Question.REACHES, nodes, NO),
        *of_each(Question.ENDPOINT, nodes, At.UNRESOLVED),
    )


def listen(nodes: Collection[NodeId]) -> Statement:
    """Returns that these controllers listen: they reject the monitor."""
    verb = "listens" if len(nodes) == 1 else "listen"
    return sentence(
        Statement(f"{numbered('controller', sorted(nodes))} {verb}", *of_each(Question.ENDPOINT, nodes, At.LISTENS))
    )


def other_cluster_at(place: str, node: NodeId | None) -> Statement:
    """Returns that a node of another cluster answers there; `node`: whose address it is."""
    claims = () if node is None else (claim(Question.ENDPOINT, At.OTHER, node=node),)
    return Statement(f"A node of another cluster answers at {place}", *claims)


def new_directory(node: NodeId) -> Statement:
    """Returns the clause about a replaced directory, which is to become the voter."""
    replaced = predicate(claim(Question.DIRECTORY, Directory.REPLACED, node=node))
    return Statement(f"controller {node} {replaced!s}", *replaced.claims, claim(Question.CHANGE, YES, node=node))


def do_not_change(node: NodeId) -> Statement:
    """Returns the beginning of a sentence that forbids to add or remove a voter."""
    return Statement(f"Do not add or remove controller {node}", claim(Question.CHANGE, NO, node=node))


def start_ends(nodes: Collection[NodeId]) -> Statement:
    """Returns the clause about a record that none of these controllers gets past when it starts."""
    return Statement("each controller that starts ends", *of_each(Question.RESTART, nodes, NO))


def not_a_voter(node: NodeId) -> Statement:
    """Returns the sentence with which an alert about a voter resolves that is none any more."""
    return statement(f"Controller {node} ", predicate(claim(Question.VOTER, NO, node=node)), ".")


def sentence(*parts: str) -> Statement:
    """Returns the parts as one text that begins with a capital letter, with the claims of each."""
    whole = statement(*parts)
    return Statement(whole[:1].upper() + whole[1:], *whole.claims)


def do_not_restart(nodes: Collection[NodeId] | None, act: str = "restart", *, named: str = "") -> Statement:
    """Returns the beginning of a sentence that forbids the restart of these controllers; None: of every node.

    `act`: what is forbidden with it (`stop or restart`). `named`: what the sentence calls them instead of their ids.
    """
    claims = (claim(Question.RESTART, NO),) if nodes is None else of_each(Question.RESTART, nodes, NO)
    return Statement(f"Do not {act} {named or numbered('controller', sorted(nodes or ()))}", *claims)
