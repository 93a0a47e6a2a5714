"""Reads the claims of all outputs of one quorum."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rules.alert import Alert
from rules.finding import Finding
from rules.formatting import as_found
from rules.model.identifiers import NodeId
from streaming.status.cluster_status import status_json
from tests.agreement.claim import (
    NO,
    NOBODY,
    YES,
    About,
    Answers,
    Claim,
    Follows,
    Value,
    at_most,
    one_of,
    yes_or_no,
)
from tests.agreement.outputs import Outputs
from tests.agreement.sentences import Reader, read

_FOLLOWS: Mapping[str, tuple[Value, ...]] = {
    "fetching": (Follows.IN_SYNC, Follows.LAGGING),
    "silent": (Follows.NOT_FETCHING,),
    "in sync": (Follows.IN_SYNC,),
    "lagging": (Follows.LAGGING,),
    "not fetching": (Follows.NOT_FETCHING,),
}
"""How a voter follows, by the word for it in the status."""
_PROBED: Mapping[str, tuple[Value, ...]] = {
    # A probe identifies the node every half minute only: it may have begun to hang since.
    "accepts connections": (Answers.LISTENS, Answers.HANGS),
    "accepts connections and does not answer": (Answers.HANGS,),
    "refuses connections": (Answers.REFUSES,),
    "the connection timed out": (Answers.UNREACHED, Answers.HANGS),
    "unreachable": (Answers.UNREACHED, Answers.HANGS),
    "the name does not resolve (NXDOMAIN)": (Answers.UNRESOLVED,),
}
"""What answers, by `probe_result`."""
_REACHES = {"ok": YES, "stale": NO, "down": NO}
"""Whether others reach a voter, by the verdict on its endpoint."""
_CANNOT_LEAD = {"certificate", "not-serving"}
_STATUS = "status"
_NOT_COUNTED = (
    "compare its settings with those of the others before you restart it",
    "the quorum does not count on its vote",
)
"""How a note ends about a voter that may be of no use to the others: no number of voters that may fail counts it."""


def claims_of(outputs: Outputs) -> tuple[Claim, ...]:
    """Returns every claim, those of the alerts first."""
    status = status_json(outputs.status)
    voters = frozenset(map(int, outputs.quorum.voting_ids))
    controllers = frozenset(map(int, outputs.restarts))
    reader = Reader(output="", controllers=controllers, voters=voters, node_at=_node_at(status))
    return (
        *_of_reported(outputs, reader),
        *_of_numbers(status),
        *_of_voters(status),
        *_of_restarts(outputs, reader),
        *_of_what_ifs(outputs),
        *_of_resolved(outputs, reader),
    )


def _node_at(status: Mapping[str, Any]) -> dict[str, int]:
    """Returns the voter by the HOST:PORT at which others dial it."""
    listed = {each.rpartition("/")[2]: one["id"] for one in status["current_voters"] for each in one["endpoints"]}
    return listed | {one["recorded"]: one["id"] for one in status["endpoints"] if one["recorded"] is not None}


def _number_in(subject: str) -> int | None:
    number = subject.rpartition(" ")[2].partition("-")[0]
    return int(number) if number.isdigit() else None


def _of_reported(outputs: Outputs, reader: Reader) -> Iterator[Claim]:
    for one in outputs.reported:
        if as_found(one.summary) != one.summary:
            # It says when that was true.
            continue
        own = reader.of(f"{one.rule} {one.subject}", _number_in(str(one.subject)))
        yield from read(one.summary, own)
        for step in one.remedy:
            if step.startswith("# "):
                yield from (claim for claim in read(step[2:], own) if not _says_the_cost(claim, one, outputs))


def _says_the_cost(claim: Claim, reported: Alert | Finding, outputs: Outputs) -> bool:
    """Returns whether a remedy that restarts a node says itself all that speaks against the restart."""
    if claim.about is not About.ADVISED or claim.node is None:
        return False
    remedy = "\n".join(reported.remedy)
    return all(reason in remedy for reason in outputs.restarts[NodeId(claim.node)].against)


def _of_numbers(status: Mapping[str, Any]) -> Iterator[Claim]:
    leader, active, left = status["leader_id"], status["voters_fetching"], status["failures_left"]
    if status["leaderless"] or leader is not None:
        values = one_of(NOBODY if status["leaderless"] else leader)
        yield Claim(about=About.LEADER, values=values, output=_STATUS, said=f"leader_id {leader}")
    if active is not None:
        said = f"voters_fetching {active}"
        yield Claim(about=About.ACTIVE, of=status["voters"], values=one_of(active), output=_STATUS, said=said)
    if left is not None:
        values = one_of(left) if left > 0 else at_most(0)
        yield Claim(about=About.FAILURES, values=values, output=_STATUS, said=f"failures_left {left}")
    electable = yes_or_no(status["electable"])
    if electable is not None:
        said = f"electable {str(status['electable']).lower()}"
        yield Claim(about=About.ELECTABLE, values=electable, output=_STATUS, said=said)


def _of_voters(status: Mapping[str, Any]) -> Iterator[Claim]:
    voters = status["committed_voters"]["voters"] if status["committed_voters"] else status["current_voters"]
    for one in voters:
        yield Claim(about=About.VOTER, node=one["id"], values=one_of(YES), output=_STATUS, said=f"voter {one['id']}")
    for endpoint in status["endpoints"]:
        yield from _of_endpoint(endpoint)
    voting = {(one["id"], one["directory_id"]) for one in voters}
    # Without a current poll, `replicas` shows the newest one.
    for row in status["replicas"] if status["voters_fetching"] is not None else ():
        node, word = row["node_id"], _following(row)
        if (node, row["directory_id"]) in voting and word in _FOLLOWS:
            values = frozenset(_FOLLOWS[word])
            yield Claim(about=About.FOLLOWS, node=node, values=values, output=_STATUS, said=f"replica {node}: {word}")


def _of_endpoint(endpoint: Mapping[str, Any]) -> Iterator[Claim]:
    node, result, verdict, faults = (endpoint[name] for name in ("id", "probe_result", "verdict", "faults"))
    name, probed = f"endpoint of voter {node}:", _PROBED.get(result or "", ())
    if (result or "").endswith(" answers"):
        probed = (Answers.OTHER,)
    said = f"{name} {verdict}" + (f" ({', '.join(faults)})" if faults else "")
    if probed:
        values = frozenset(probed)
        yield Claim(about=About.ENDPOINT, node=node, values=values, output=_STATUS, said=f"{name} {result}")
    if verdict in _REACHES:
        yield Claim(about=About.REACHES, node=node, values=one_of(_REACHES[verdict]), output=_STATUS, said=said)
    if verdict == "down" or _lost(faults, _following(endpoint)):
        said = f"{said}, {_following(endpoint)}"
        yield Claim(about=About.VOTES, node=node, values=one_of(NO), output=_STATUS, said=said)


def _following(part: Mapping[str, Any]) -> str:
    return str(part["following"] if "following" in part else part["liveness"])


def _lost(faults: Sequence[str], following: str) -> bool:
    """Returns whether a voter takes part in no election: it cannot lead, or another process has taken its place."""
    elsewhere = "leads-elsewhere" in faults and _FOLLOWS.get(following) == (Follows.NOT_FETCHING,)
    return elsewhere or not _CANNOT_LEAD.isdisjoint(faults)


def _of_restarts(outputs: Outputs, reader: Reader) -> Iterator[Claim]:
    for node, answer in outputs.restarts.items():
        output = f"safe-to-restart {node}"
        if answer.safe is not None:
            safe, said = one_of(YES if answer.safe else NO), "SAFE" if answer.safe else f"NOT SAFE: {answer.against[0]}"
            yield Claim(about=About.RESTART, node=node, values=safe, output=output, said=said)
        for reason in (*answer.against, *answer.unknown):
            yield from read(reason, reader.of(output, None))
        if any(note.endswith(_NOT_COUNTED) for note in answer.notes):
            yield Claim(about=About.VOTES, node=node, values=one_of(YES, NO), output=output, said="it differs")
        if any(note.startswith("it leads:") for note in answer.notes):
            yield Claim(about=About.LEADER, values=one_of(int(node)), output=output, said="it leads")
        for other in answer.remaining or ():
            said = f"without it {other} remains, caught up"
            yield Claim(about=About.FOLLOWS, node=other, values=one_of(Follows.IN_SYNC), output=output, said=said)


def _of_what_ifs(outputs: Outputs) -> Iterator[Claim]:
    for output, (node, result) in outputs.what_ifs.items():
        about = About.ELECTABLE if node is None else About.WITHOUT
        if node is not None and "--restart" in output:
            about = About.FAILS if "--lose" in output else About.RESTARTED
        answer = yes_or_no(result.electable)
        if answer is not None:
            said = "ELECTABLE" if result.electable else "NOT ELECTABLE"
            winners = [one.key.id for one in result.forecast.candidates if one.wins]
            if result.leader_stays is None and winners:
                said = f"{said}: {', '.join(map(str, winners))} can be elected"
            yield Claim(about=about, node=node, values=answer, output=output, said=said)
        if result.leader_stays is not None:
            said = f"controller {result.leader_stays} stays the leader"
            yield Claim(about=About.LEADER, values=one_of(int(result.leader_stays)), output=output, said=said)


def _of_resolved(outputs: Outputs, reader: Reader) -> Iterator[Claim]:
    for name, text in outputs.resolved.items():
        yield from read(text, reader.of(f"resolved {name}", _number_in(name)))
