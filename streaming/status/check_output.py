"""What `check` and `safe-to-restart` answer: as plain data for `--json`, and as text for people."""

from rich.text import Text

from connectors.errors import UsageError
from connectors.sinks.alert_json import iso, sayable
from connectors.sinks.evidence_format import visible
from rules.analysis.safe_to_restart import Restart, known, safe_to_restart
from rules.finding import HOLD, Finding, Plain, Thresholds
from rules.formatting import listed
from rules.model.identifiers import NodeId
from streaming.status import status_tables
from streaming.status.cluster_state import Glimpse
from streaming.status.health import health, worst_first
from streaming.status.overview import RULE

_ONE_LOOK = "one look: holds do not apply, so a finding may be gone in a moment (a restart, an election)"


def checked(glimpse: Glimpse) -> dict[str, Plain]:
    """The fields of `check --json`: what stands now, whole, with what to do."""
    verdict = health(glimpse)
    return {
        **_head(glimpse),
        "health": verdict.value,
        "exit_code": verdict.exit_code,
        "observed_at": iso(glimpse.quorum.now_ms) if glimpse.quorum.now_ms else None,
        "holds_applied": False,
        "findings": [_finding(glimpse, one) for one in worst_first(glimpse.evaluation.findings)],
        "cannot_tell": [
            {"rule": one.rule, "subject": one.subject, "why": one.why} for one in glimpse.evaluation.unknown
        ],
        "not_applicable": [{"rule": one.rule, "why": one.why} for one in glimpse.evaluation.not_applicable],
        "missing": [*glimpse.missing],
    }


def checked_text(glimpse: Glimpse) -> Text:
    """The same for people."""
    text = Text.assemble(status_tables.badge(health(glimpse)), (f" {visible(glimpse.quorum.cluster)}\n", "bold"))
    evaluation = glimpse.evaluation
    for one in worst_first(evaluation.findings):
        text.append(f"  {one.severity} {one.rule} · {visible(one.subject)}\n", "bold")
        text.append(f"    {visible(one.summary)}\n")
        for step in one.remedy:
            command = not step.startswith("#")
            said = visible(step, keep="\n") if command else visible(step.removeprefix("#").strip())
            text.append(f"    {'$ ' if command else '- '}{said}\n", "green" if command else "")
    for line in status_tables.unknown((gap.rule, gap.subject, gap.why) for gap in evaluation.unknown):
        text.append_text(line).append("\n")
    for each in glimpse.missing:
        text.append(f"  not seen: {visible(each)}\n", "magenta")
    for absent in evaluation.not_applicable:
        text.append(f"  not applicable {absent.rule}: {visible(absent.why)}\n", "dim")
    if evaluation.findings:
        text.append(f"  {_ONE_LOOK}\n", "dim")
    text.rstrip()
    return text


def restart_of(glimpse: Glimpse, node: int) -> Restart:
    """Whether this node may be restarted.

    Raises:
        UsageError: it is no controller of this cluster.
    """
    quorum = glimpse.quorum
    nodes = known(quorum)
    if glimpse.answered and nodes and node not in nodes:
        what = "a broker alone" if node in quorum.brokers else "no node that the quorum knows"
        raise UsageError(f"{node} is {what}; the controllers of cluster {quorum.cluster}: {listed(sorted(nodes), 20)}")
    # Those of the two rules whose conditions speak against a restart.
    disk, endpoint = glimpse.thresholds["voter-disk-replaced"], glimpse.thresholds[RULE]
    return safe_to_restart(quorum, NodeId(node), Thresholds(values={**disk.values, **endpoint.values}))


def restart(glimpse: Glimpse, answer: Restart) -> dict[str, Plain]:
    """The fields of `safe-to-restart --json`."""
    return {
        **_head(glimpse),
        "node": answer.node,
        "safe": answer.safe,
        "against": [*answer.against],
        "notes": [*answer.notes],
        "remaining": None if answer.remaining is None else [*answer.remaining],
        "votes_needed": answer.votes_needed,
    }


def restart_text(glimpse: Glimpse, answer: Restart) -> Text:
    """The same for people."""
    word, style = (" SAFE ", "bold black on green") if answer.safe else (" NOT SAFE ", "bold white on red")
    text = Text.assemble((word, style), (f" {visible(glimpse.quorum.cluster)}, controller {answer.node}\n", "bold"))
    if answer.safe and answer.remaining is not None:
        remain = listed(answer.remaining, 20)
        text.append(f"  without it {remain} remain, caught up; {answer.votes_needed} votes are needed\n")
    for each in answer.against:
        text.append(f"  {visible(each)}\n")
    for each in answer.notes:
        text.append(f"  note: {visible(each)}\n", "dim")
    text.rstrip()
    return text


def _head(glimpse: Glimpse) -> dict[str, Plain]:
    return {"cluster": glimpse.quorum.cluster, "cluster_id": glimpse.quorum.cluster_id}


def _finding(glimpse: Glimpse, one: Finding) -> dict[str, Plain]:
    return {
        "rule": one.rule,
        "subject": one.subject,
        "severity": one.severity.value,
        "summary": one.summary,
        "evidence": sayable(one.evidence),
        "remedy": [*one.remedy],
        "hold_s": glimpse.thresholds[one.rule][HOLD],
    }
