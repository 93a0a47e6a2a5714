"""What `check` prints: plain data for `--json`, and text for people."""

from rich.text import Text

from connectors.sinks.alert_json import claims_json
from connectors.store.stored_json import json_safe
from rules.finding import Finding, Plain
from rules.formatting import visible
from streaming.status import status_tables
from streaming.status.build_status import cluster_status
from streaming.status.cluster_status import ClusterState, ClusterStatus, StatusSource, UnknownStatus, status_json
from streaming.status.health import health, records_at_risk, undecided_answers, worst_first

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
            return Text(status_tables.NOTHING_KNOWN, "bold magenta")
        case StatusSource.LIVE if state.recorded_at_ms is not None:
            return Text(f"  {status_tables.continued_note(state.recorded_at_ms, state.quorum.now_ms)}\n", "dim")
        case _:
            return Text()


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
