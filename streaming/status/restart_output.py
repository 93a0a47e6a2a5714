"""Whether nodes may be restarted, and are back: the answers for a `ClusterState`, as JSON, as text and in a status."""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from heapq import nlargest
from typing import Any

from rich.text import Text

from connectors.errors import UsageError
from connectors.sinks.alert_json import claims_json
from rules.answers.after_restart import AfterRestart, after_restart
from rules.answers.broker_restart import NO_TERMS, RestartTerms
from rules.answers.refusal import EXCLUDABLE, NEVER, Announced, Refusal
from rules.answers.restart import RestartSafety, restart_thresholds, restartable, safe_to_restart
from rules.answers.worlds import Undecided
from rules.claims.statement import claims_of
from rules.evaluate import OBSERVATION_RULES
from rules.facts.contact import dialled_endpoint
from rules.facts.following import fetched_after_ms
from rules.facts.freshness import log_read_problem
from rules.facts.quorum import Facts
from rules.finding import Plain
from rules.formatting import and_join, iso, needed_text, visible
from rules.model.history import NodeKind
from rules.model.identifiers import Millis, NodeId
from rules.model.subject import Subject
from rules.notifications.route import RESTART_ID, Silence
from streaming.status.cluster_status import ClusterState, RestartStatus

_ANSWERS = {
    True: (" SAFE ", "bold black on green"),
    False: (" NOT SAFE ", "bold white on red"),
    None: (" UNKNOWN ", "bold black on yellow"),
}
RESTARTS_LIMIT = 200
"""Nodes of which a status says whether they may be restarted."""


def restart_statuses(state: ClusterState) -> tuple[RestartStatus, ...]:
    """Returns whether each node may be restarted: controllers first, then brokers, by node id."""
    controllers = state.facts.known_controllers
    nodes = [*sorted(controllers), *sorted(restartable(state.facts) - controllers)]
    answers = (evaluate_restart(state, node) for node in nodes[:RESTARTS_LIMIT])
    observed_since = _observed_since(state.facts)
    return tuple(
        RestartStatus(
            node=answer.node,
            roles=answer.roles,
            safe=answer.safe,
            against=tuple(map(str, answer.against)),
            reasons=answer.against,
            unknown=answer.unknown,
            undecided=tuple(Undecided.by(one) for one in answer.undecided),
            claims=answer.claims,
            notes=answer.notes,
            remaining=answer.remaining,
            votes_needed=answer.votes_needed,
            partitions=answer.partitions,
            observed_since_ms=observed_since(answer),
        )
        for answer in answers
    )


def _observed_since(facts: Facts) -> Callable[[RestartSafety], Millis | None]:
    """Returns since when all was observed that an answer rests on, as a function; None: something was not.

    That is the log, the poll, each voter's endpoint; of a broker also the last fetch of each other broker.
    """
    quorum, poll, ages = facts.quorum, facts.quorum.poll, facts.broker_fetch_ages
    endpoints = {node: dialled_endpoint(quorum, node) for node in quorum.voting_ids}
    probes = [quorum.probe(node, endpoint) for node, endpoint in endpoints.items() if endpoint is not None]
    times = [quorum.log_fetched_at_ms, None if poll is None else poll.observed_at_ms]
    times += [None if one is None else one.observed_at_ms for one in probes]
    known = [at for at in times if at is not None]
    common = min(known) if len(known) == len(times) else None
    unknown = {node for node, age in ages.items() if age is None}
    longest = nlargest(2, ((age, node) for node, age in ages.items() if age is not None))

    def since(answer: RestartSafety) -> Millis | None:
        if common is None or poll is None or NodeKind.BROKER not in answer.roles:
            return common
        # A broker fetches twice a second: one that stopped fetching may have failed.
        age = next((age for age, node in longest if node != answer.node), Millis(0))
        return None if unknown - {answer.node} else min(common, fetched_after_ms(poll, age))

    return since


def evaluate_restart(state: ClusterState, node: int, terms: RestartTerms = NO_TERMS) -> RestartSafety:
    """Returns whether this node may be restarted; UsageError if it is no node of this cluster.

    The notes name what kraftwatch does not observe, and why: that is what makes an answer unknown.
    """
    _check_known(state, node)
    terms = replace(terms, since_ms=state.queried_since_ms)
    answer = safe_to_restart(
        state.facts,
        NodeId(node),
        restart_thresholds(state.thresholds),
        state.evaluation.findings,
        terms,
    )
    if answer.safe and state.queried_since_ms is not None and state.missing:
        # What a job recorded before may be from before another controller stopped.
        answer = replace(answer, unobserved=(f"{and_join(state.missing, 5)} since this command began",))
    unobserved = [finding.summary for finding in state.evaluation.findings if finding.rule in OBSERVATION_RULES]
    return replace(answer, notes=(*answer.notes, *unobserved)) if unobserved else answer


def announcements(silences: Iterable[Silence], cluster: str, nodes: Iterable[NodeId]) -> tuple[Announced, ...]:
    """Returns the times in which silences announced restarts of these nodes."""
    of_cluster = [silence for silence in silences if fnmatchcase(cluster, silence.cluster)]
    return tuple(
        Announced(
            node=node,
            since_ms=silence.starts_at_ms,
            until_ms=silence.ends_at_ms,
            by_gate=silence.id.startswith(RESTART_ID),
        )
        for node in (nodes if of_cluster else ())
        for silence in of_cluster
        if silence.announces_restart(cluster, node)
    )


def announcing(
    cluster: str, answer: RestartSafety, now_ms: Millis, until_ms: Millis, *, author: str
) -> tuple[Silence, ...]:
    """Returns silences that announce the restart of a node, one for each of its roles, under one id."""
    despite = "".join(f", despite {one.name}" for one in answer.left_out[:1])
    name = f"{RESTART_ID}{answer.node}-{secrets.token_hex(4)}"
    return tuple(
        Silence(
            id=name,
            cluster=cluster,
            subject=str(Subject(role, answer.node)),
            starts_at_ms=now_ms,
            ends_at_ms=until_ms,
            author=author,
            comment=f"restart of node {answer.node}: safe-to-restart answered yes{despite}",
        )
        for role in answer.roles
    )


def is_only_one(silences: Iterable[Silence], added: Silence, now_ms: Millis) -> bool:
    """Returns whether no other restart in its cluster is allowed at the same time: of two, both are withdrawn."""
    return not any(
        silence.id.startswith(RESTART_ID)
        and silence.cluster == added.cluster
        and silence.subject.split()[-1] != added.subject.split()[-1]
        and silence.active(now_ms)
        for silence in silences
    )


def announcements_of(silences: Iterable[Silence], cluster: str, node: NodeId, now_ms: Millis) -> Sequence[str]:
    """Returns the ids of the active silences with which the restart of this node was allowed."""
    return sorted(
        {
            silence.id
            for silence in silences
            if silence.id.startswith(RESTART_ID)
            and silence.active(now_ms)
            and silence.cluster == cluster
            and silence.announces_restart(cluster, node)
        }
    )


def check_despite(name: str | None) -> None:
    """Raises UsageError if no reason of this name may be left out."""
    if name in NEVER:
        raise UsageError(f"{name} would cost the leader or records: it is never left out")
    if name is not None and name not in EXCLUDABLE:
        raise UsageError(f"no reason is named '{name[:64]}'; {and_join(EXCLUDABLE, 20)} may be left out")


def _check_known(state: ClusterState, node: int) -> None:
    quorum, nodes = state.quorum, state.facts.known_controllers
    # Which brokers there are, the log shows: until it is read, the answer is unknown.
    unread = quorum.access.log and log_read_problem(quorum) is not None
    if state.answered and nodes and not unread and node not in restartable(state.facts):
        raise UsageError(
            f"node {node} is unknown to the quorum; the controllers of cluster {quorum.cluster}: "
            f"{and_join(sorted(nodes), 20)}; its brokers: {and_join(sorted(quorum.brokers), 20)}"
        )


def restart_json(state: ClusterState, answer: RestartSafety) -> dict[str, Plain]:
    """Returns the fields of `safe-to-restart --json`."""
    return {
        **_cluster(state),
        "safe": answer.safe,
        "node": answer.node,
        "roles": [*answer.roles],
        "against": [*map(str, answer.against)],
        "reasons": [_reason_json(reason) for reason in answer.against],
        "left_out": [_reason_json(reason) for reason in answer.left_out],
        "unknown": [*answer.unknown],
        "undecided": [asdict(Undecided.by(one)) for one in answer.undecided],
        "claims": claims_json(answer.claims),
        "notes": [*answer.notes],
        "remaining": None if answer.remaining is None else [*answer.remaining],
        "votes_needed": answer.votes_needed,
        "partitions": None if answer.partitions is None else asdict(answer.partitions),
    }


def _reason_json(reason: Refusal) -> dict[str, Plain]:
    return {
        "name": reason.name,
        "why": visible(reason.why),
        "until": None if reason.until is None else visible(reason.until),
        "ends_at": None if reason.ends_at_ms is None else iso(reason.ends_at_ms),
    }


def restart_text(answer: Mapping[str, Any]) -> Text:
    """Returns the text of `safe-to-restart`, of the fields of an answer: those of `restart_json`, or of a job's API."""
    safe = answer["safe"]
    word, style = _ANSWERS[safe]
    where = f" {visible(answer['cluster'])}, {' and '.join(answer['roles'])} {answer['node']}\n"
    text = Text.assemble((word, style), (where, "bold"))
    if safe and answer["remaining"] is not None and answer["votes_needed"] is not None:
        remaining, needed = and_join(answer["remaining"], 20), needed_text(answer["votes_needed"], "vote")
        text.append(f"  without it {remaining} remain, caught up; {needed}\n")
    if safe and answer["partitions"] is not None and not answer["left_out"]:
        few = "no partition with several replicas loses its leader, or falls below min.insync.replicas"
        text.append(f"  without it {few}\n")
    for why, reason in zip(answer["against"], answer["reasons"], strict=True):
        text.append(f"  {visible(why)}").append(f" ({reason['name']})\n", "dim")
    for each in answer["unknown"]:
        text.append(f"  {visible(each)}\n")
    for reason in answer["left_out"]:
        text.append(f"  left out by --despite {reason['name']}: {visible(reason['why'])}\n")
    for each in answer["notes"]:
        text.append(f"  note: {visible(each)}\n", "dim")
    text.rstrip()
    return text


def evaluate_after_restart(state: ClusterState, node: int) -> AfterRestart:
    """Returns whether a restarted node is back, by what was observed since the query began; UsageError as above."""
    _check_known(state, node)
    return after_restart(state.facts, NodeId(node), state.queried_since_ms or state.quorum.now_ms)


def after_json(state: ClusterState, answer: AfterRestart) -> dict[str, Plain]:
    """Returns the fields of `safe-to-restart --after --json`."""
    return {
        **_cluster(state),
        "back": answer.back,
        "node": answer.node,
        "roles": [*answer.roles],
        "missing": [*answer.missing],
        "unknown": [*answer.unknown],
        "claims": claims_json(claims_of(answer.missing)),
    }


def after_text(state: ClusterState, answer: AfterRestart) -> Text:
    """Returns the text of `safe-to-restart --after`."""
    word = {True: " BACK ", False: " NOT BACK ", None: " UNKNOWN "}[answer.back]
    where = f" {visible(state.quorum.cluster)}, {_role(answer)} {answer.node}\n"
    text = Text.assemble((word, _ANSWERS[answer.back][1]), (where, "bold"))
    for each in (*answer.missing, *answer.unknown):
        text.append(f"  {visible(each)}\n")
    text.rstrip()
    return text


def order_json(state: ClusterState, answers: Sequence[RestartSafety]) -> dict[str, Plain]:
    """Returns the fields of `safe-to-restart --order --json`: the nodes in their order, and the answer for each."""
    each = [restart_json(state, answer) for answer in answers]
    return {
        **_cluster(state),
        "order": [answer.node for answer in answers],
        "safe": answers[0].safe,
        "answers": [*each],
    }


def order_text(state: ClusterState, answers: Sequence[RestartSafety]) -> Text:
    """Returns the text of `safe-to-restart --order`: the nodes in their order, the answer for the first in full."""
    nodes = and_join((answer.node for answer in answers), len(answers))
    text = Text.assemble(("restart in this order: ", "bold"), (f"{nodes}\n", "bold"))
    text.append_text(restart_text(restart_json(state, answers[0]))).append("\n")
    for answer in answers[1:]:
        now = {True: "may be restarted now", False: "not now", None: "unknown now"}[answer.safe]
        why = next(iter((*map(str, answer.against), *answer.unknown)), None)
        leads = ", leads the quorum" if answer.node == state.facts.current_leader else ""
        text.append(f"  {_role(answer)} {answer.node}{leads}: {now}{f' ({visible(why)})' if why else ''}\n", "dim")
    text.rstrip()
    return text


def _cluster(state: ClusterState) -> dict[str, Plain]:
    return {"cluster": state.quorum.cluster, "cluster_id": state.quorum.cluster_id}


def _role(answer: RestartSafety | AfterRestart) -> str:
    return " and ".join(answer.roles)
