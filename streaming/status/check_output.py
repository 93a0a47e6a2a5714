"""What `check` and `safe-to-restart` print: plain data for `--json`, and text for people."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from rich.text import Text

from connectors.errors import UsageError
from connectors.sinks.alert_json import claims_json
from connectors.store.stored_json import json_safe
from rules.answers.after_restart import AfterRestart, after_restart
from rules.answers.broker_restart import NO_TERMS, RestartTerms
from rules.answers.restart import RestartSafety, restartable, safe_to_restart
from rules.answers.worlds import Undecided
from rules.claims.statement import claims_of
from rules.evaluate import OBSERVATION_RULES
from rules.finding import Finding, Plain, Thresholds
from rules.formatting import and_join, needed_text, visible
from rules.model.identifiers import NodeId
from streaming.status import status_tables
from streaming.status.build_status import cluster_status
from streaming.status.cluster_status import ClusterState, ClusterStatus, StatusSource, UnknownStatus, status_json
from streaming.status.health import health, records_at_risk, undecided_answers, worst_first

_ANSWERS = {
    True: (" SAFE ", "bold black on green"),
    False: (" NOT SAFE ", "bold white on red"),
    None: (" UNKNOWN ", "bold black on yellow"),
}
_HOLDS_NOT_APPLIED = "holds are not applied: a finding may disappear within seconds (a restart, an election)"


def check_json(state: ClusterState, status: ClusterStatus | None = None) -> dict[str, Plain]:
    """Returns the fields of `check --json`: every finding with evidence and remedy. `status`: with the job's alerts."""
    status = status or cluster_status(state)
    verdict = health(status)
    return {
        **status_json(status, ("cluster", "cluster_id")),
        "health": verdict.value,
        "exit_code": verdict.exit_code,
        "holds_applied": False,
        "findings": [_finding(state, finding) for finding in worst_first(state.evaluation.findings)],
        **status_json(status, ("observed_at_ms", "recorded_at_ms", "unknown", "undecided", "not_applicable")),
        **status_json(status, ("missing", "source", "age_ms")),
        **status_json(status, ("acknowledged", "firing")),
    }


def check_text(state: ClusterState, status: ClusterStatus | None = None) -> Text:
    """Returns the text of `check`. `status`: with the job's alerts."""
    status, evaluation = status or cluster_status(state), state.evaluation
    text = Text.assemble(status_tables.BADGES[health(status)], (f" {visible(status.cluster)}\n", "bold"))
    at_risk = records_at_risk(status)
    text.append_text(_source_note(state))
    if at_risk is not None:
        text.append(f"  {at_risk}\n", "bold")
    for finding in worst_first(evaluation.findings):
        hold_s = finding.hold(state.thresholds[finding.rule]) / 1000
        hold = status_tables.when_text(status, finding.rule, str(finding.subject), hold_s)
        text.append(f"  {finding.severity} {finding.rule} · {visible(str(finding.subject))}{hold}\n", "bold")
        text.append(f"    {visible(finding.summary)}\n")
        for response in status_tables.response_lines(status, finding.rule, str(finding.subject)):
            text.append_text(response).append("\n")
        for step in finding.remedy:
            line, style = status_tables.remedy_line(step)
            text.append(f"    {line}\n", style)
    for unknown in status_tables.unknown_lines(map(UnknownStatus.of, evaluation.unknown)):
        text.append_text(unknown).append("\n")
    for question, why in undecided_answers(status):
        text.append(f"  {question}: {visible(why)}\n", "magenta")
    for each in state.missing:
        text.append(f"  missing: {visible(each)}\n", "magenta")
    for absent in evaluation.not_applicable:
        text.append(f"  not applicable {absent.rule}: {visible(absent.why)}\n", "dim")
    if evaluation.findings:
        text.append(f"  {_HOLDS_NOT_APPLIED}\n", "dim")
    text.rstrip()
    return text


def _source_note(state: ClusterState) -> Text:
    """Returns from when the state is, as a line; empty for one that this query alone has observed."""
    match state.source:
        case StatusSource.JOURNAL:
            return Text(f"  {status_tables.recorded_note(state.age_ms, state.missing)}\n", "bold magenta")
        case StatusSource.NONE:
            return Text(f"{status_tables.ASK_DOCTOR}\n", "bold magenta")
        case StatusSource.LIVE if state.recorded_at_ms is not None:
            return Text(f"  {status_tables.continued_note(state.recorded_at_ms, state.quorum.now_ms)}\n", "dim")
        case _:
            return Text()


def evaluate_restart(state: ClusterState, node: int, terms: RestartTerms = NO_TERMS) -> RestartSafety:
    """Returns whether this node may be restarted; UsageError if it is no node of this cluster.

    The notes name what kraftwatch does not observe, and why: that is what makes an answer unknown.
    """
    _check_known(state, node)
    # The thresholds of the two rules whose conditions make a restart unsafe.
    disk, endpoint = state.thresholds["voter-disk-replaced"], state.thresholds["stale-voter-endpoint"]
    terms = replace(terms, since_ms=state.queried_since_ms)
    answer = safe_to_restart(
        state.facts,
        NodeId(node),
        Thresholds(values={**disk.values, **endpoint.values}),
        state.evaluation.findings,
        terms,
    )
    if answer.safe and state.queried_since_ms is not None and state.missing:
        # What a job recorded before may be from before another controller stopped.
        answer = replace(answer, unobserved=(f"{and_join(state.missing, 5)} since this command began",))
    unobserved = [finding.summary for finding in state.evaluation.findings if finding.rule in OBSERVATION_RULES]
    return replace(answer, notes=(*answer.notes, *unobserved))


def _check_known(state: ClusterState, node: int) -> None:
    quorum, nodes = state.quorum, state.facts.known_controllers
    if state.answered and nodes and node not in restartable(state.facts):
        raise UsageError(
            f"node {node} is unknown to the quorum; the controllers of cluster {quorum.cluster}: "
            f"{and_join(sorted(nodes), 20)}; its brokers: {and_join(sorted(quorum.brokers), 20)}"
        )


def restart_json(state: ClusterState, answer: RestartSafety) -> dict[str, Plain]:
    """Returns the fields of `safe-to-restart --json`."""
    cluster = {"cluster": state.quorum.cluster, "cluster_id": state.quorum.cluster_id}
    return {
        **cluster,
        "safe": answer.safe,
        "node": answer.node,
        "roles": [*answer.roles],
        "against": [*answer.against],
        "unknown": [*answer.unknown],
        "undecided": [asdict(Undecided.by(one)) for one in answer.undecided],
        "claims": claims_json(answer.claims),
        "notes": [*answer.notes],
        "remaining": None if answer.remaining is None else [*answer.remaining],
        "votes_needed": answer.votes_needed,
        "partitions": None if answer.partitions is None else asdict(answer.partitions),
    }


def restart_text(state: ClusterState, answer: RestartSafety) -> Text:
    """Returns the text of `safe-to-restart`."""
    word, style = _ANSWERS[answer.safe]
    text = Text.assemble((word, style), (f" {visible(state.quorum.cluster)}, {_role(answer)} {answer.node}\n", "bold"))
    if answer.safe and answer.remaining is not None and answer.votes_needed is not None:
        remaining, needed = and_join(answer.remaining, 20), needed_text(answer.votes_needed, "vote")
        text.append(f"  without it {remaining} remain, caught up; {needed}\n")
    if answer.safe and answer.partitions is not None:
        few = "no partition with several replicas loses its leader, or falls below min.insync.replicas"
        text.append(f"  without it {few}\n")
    for each in (*answer.against, *answer.unknown):
        text.append(f"  {visible(each)}\n")
    for each in answer.notes:
        text.append(f"  note: {visible(each)}\n", "dim")
    text.rstrip()
    return text


def evaluate_after_restart(state: ClusterState, node: int) -> AfterRestart:
    """Returns whether a restarted node is back, by what was observed since the query began; UsageError as above."""
    _check_known(state, node)
    return after_restart(state.facts, NodeId(node), state.queried_since_ms or state.quorum.now_ms)


def after_json(state: ClusterState, answer: AfterRestart) -> dict[str, Plain]:
    """Returns the fields of `safe-to-restart --after --json`."""
    cluster = {"cluster": state.quorum.cluster, "cluster_id": state.quorum.cluster_id}
    return {
        **cluster,
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
    cluster = {"cluster": state.quorum.cluster, "cluster_id": state.quorum.cluster_id}
    each = [restart_json(state, answer) for answer in answers]
    return {**cluster, "order": [answer.node for answer in answers], "safe": answers[0].safe, "answers": [*each]}


def order_text(state: ClusterState, answers: Sequence[RestartSafety]) -> Text:
    """Returns the text of `safe-to-restart --order`: the nodes in their order, the answer for the first in full."""
    nodes = and_join((answer.node for answer in answers), len(answers))
    text = Text.assemble(("restart in this order: ", "bold"), (f"{nodes}\n", "bold"))
    text.append_text(restart_text(state, answers[0])).append("\n")
    for answer in answers[1:]:
        now = {True: "may be restarted now", False: "not now", None: "unknown now"}[answer.safe]
        why = next(iter((*answer.against, *answer.unknown)), None)
        leads = ", leads the quorum" if answer.node == state.facts.current_leader else ""
        text.append(f"  {_role(answer)} {answer.node}{leads}: {now}{f' ({visible(why)})' if why else ''}\n", "dim")
    text.rstrip()
    return text


def _role(answer: RestartSafety | AfterRestart) -> str:
    return " and ".join(answer.roles)


def _finding(state: ClusterState, one: Finding) -> dict[str, Plain]:
    return {
        "rule": one.rule,
        "subject": str(one.subject),
        "severity": one.severity.value,
        "summary": one.summary,
        "evidence": json_safe(one.evidence),
        "claims": claims_json(one.claims),
        "remedy": [*one.remedy],
        "hold_s": one.hold(state.thresholds[one.rule]) / 1000,
    }
