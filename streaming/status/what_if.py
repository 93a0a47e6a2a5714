"""`kraftwatch what-if`: the disks that it reads, and how its answer is printed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from rich.text import Text

from connectors.errors import UsageError
from connectors.sinks.alert_json import claims_json
from rules.answers.forecast import CandidateForecast
from rules.answers.part import Elector, Electorate, LastElection, Part, ids
from rules.answers.what_if import Change, Controllers, WhatIf
from rules.answers.what_if import what_if as answered
from rules.claims.claim import Question
from rules.facts.doubts import About, Doubt
from rules.finding import Plain
from rules.formatting import and_join, needed_text, plural, visible
from rules.model.identifiers import Endpoint, Epoch, NodeId
from rules.model.membership import VoterSet
from streaming.status.log_dir_status import LogDirContents, cluster_of


def controllers_of_disks(disks: Sequence[LogDirContents]) -> Controllers:
    """Returns the controllers whose disks were read, and the voters without a disk as assumed to be there.

    Raises:
        UsageError: the disks are of several clusters, or two are of one node.
    """
    cluster = cluster_of(disks) or "unknown"
    found: dict[NodeId, Elector] = {}
    newest: VoterSet | None = None
    registered: Mapping[NodeId, tuple[Endpoint, ...]] = {}
    best = (-1, -1)
    doubts: dict[NodeId, Doubt] = {}
    for disk in disks:
        quorum = disk.machine.quorum()
        key = disk.key
        if key.id in found:
            raise UsageError(f"two of the disks are of node {key.id}: give each node once")
        if quorum.committed is None:
            continue
        position = (disk.epoch or Epoch(0), disk.end_offset)
        if position > best:
            best, newest = position, quorum.committed
            registered = {node: registration.endpoints for node, registration in quorum.controllers.items()}
        state = disk.election
        last = None if isinstance(state, str) else LastElection(epoch=state.leader_epoch, leader=state.leader_id)
        one = Elector(key=key, log_end=position, voters=quorum.committed, last_election=last)
        ends = next((problem for problem in disk.start_problems if problem.ends), None)
        if ends is not None:
            one = replace(one, votes=Part.LOST, no_vote=str(ends))
        elif disk.start_problems:
            problem = disk.start_problems[0]
            one = replace(one, votes=Part.DOUBTFUL)
            doubts[key.id] = Doubt(
                node=key.id, about=About.START, why=f"may not start: {problem}", find_out=problem.step
            )
        found[key.id] = one
    if newest is None:
        return Controllers(cluster=cluster, voters=None, electorate=Electorate(electors=()))
    unread = [f"{disk.key.id} ({one.file}: {one.reason})" for disk in disks for one in disk.damaged if one.undamaged]
    unknown_end = f"where the log ends is unknown of {and_join(unread)}" if unread else None
    read = _with_missing(cluster, found, newest, registered)
    return replace(read, electorate=replace(read.electorate, unobserved=unknown_end, doubts=doubts))


def what_if(controllers: Controllers, change: Change) -> WhatIf:
    """Answers for the change; UsageError if it names a node that is no voter."""
    known = ids(controllers.electorate.electors)
    for node in sorted(change.nodes.difference(known)) if known else ():
        raise UsageError(f"controller {node} is no voter of {controllers.cluster}: its voters are {and_join(known)}")
    return answered(controllers, change)


def _with_missing(
    cluster: str,
    found: Mapping[NodeId, Elector],
    newest: VoterSet,
    registered: Mapping[NodeId, tuple[Endpoint, ...]],
) -> Controllers:
    """Adds where each controller listens by its registration, and the voters whose disks were not given."""
    members, absent = [], []
    for voter in newest.voters:
        recorded = voter.endpoints[0] if voter.endpoints else None
        own = registered.get(voter.key.id, ())
        endpoint = next((one for one in own if recorded and one.listener.upper() == recorded.listener.upper()), None)
        one = found.get(voter.key.id)
        if one is None:
            absent.append(voter.key.id)
            one = Elector(key=voter.key, voters=newest)
        members.append(replace(one, endpoint=endpoint))
    sentence = f"the disks of {and_join(absent)} were not given: assumed to be there, with logs that are not ahead"
    assumed = (sentence,) if absent else ()
    return Controllers(cluster=cluster, voters=newest, electorate=Electorate(electors=tuple(members)), assumed=assumed)


def what_if_text(result: WhatIf) -> Text:
    """Returns the answer, each candidate with its votes, and what was assumed."""
    out, cluster = Text(), visible(result.controllers.cluster)
    match result.electable:
        case None:
            out.append(" UNKNOWN ", "bold black on yellow")
        case True:
            out.append(" ELECTABLE ", "bold black on green")
        case False:
            out.append(" NOT ELECTABLE ", "bold white on red")
    out.append(f" {cluster}: {_conclusion(result)}\n", "bold")
    for candidate in result.forecast.candidates:
        out.append(f"  {visible(_candidate(candidate))}\n", "" if candidate.wins else "dim")
    for sentence in result.controllers.assumed:
        out.append(f"  assumption: {visible(sentence)}\n", "yellow")
    out.rstrip()
    return out


def what_if_json(result: WhatIf) -> dict[str, Plain]:
    """Returns the fields of `what-if --json`."""
    return {
        "cluster": result.controllers.cluster,
        "electable": result.electable,
        "majority": result.majority,
        "unknown": result.unknown,
        "undecided": [asdict(one) for one in result.answer.undecided],
        "leader_stays": result.leader_stays,
        "claims": claims_json(result.claims(Question.LEADS_AFTER)),
        "candidates": [
            {
                "node_id": candidate.key.id,
                "directory_id": candidate.key.directory_id,
                "votes": len(candidate.reached),
                "needed": candidate.needed,
                "wins": candidate.wins,
                "reached": [key.id for key in candidate.reached],
                "may_reach": [key.id for key in candidate.may_reach],
                "barred": {str(key.id): reason for key, reason in candidate.barred.items()},
            }
            for candidate in result.forecast.candidates
        ],
        "assumed": [*result.controllers.assumed],
    }


def _conclusion(result: WhatIf) -> str:
    if result.leader_stays is not None:
        return f"controller {result.leader_stays} stays the leader"
    if result.unknown is not None:
        return result.unknown
    winners = [candidate.key.id for candidate in result.forecast.candidates if candidate.wins]
    if winners:
        return f"{and_join(winners)} can be elected"
    return f"no controller gets {plural(result.majority or 0, 'vote')}: there would be no leader"


def _candidate(one: CandidateForecast) -> str:
    votes = f"controller {one.key.id}: {plural(len(one.reached), 'vote')}, {needed_text(one.needed)}"
    reasons = "; ".join(f"not of {key.id}: {reason}" for key, reason in one.barred.items())
    return f"{votes} ({reasons})" if reasons else votes
