"""The output of `rescue plan`, as text and as JSON."""

from collections.abc import Sequence

from rich.text import Text

from connectors.sinks.alert_json import iso
from connectors.sinks.evidence_format import visible
from rules.finding import Plain
from rules.formatting import and_join
from rules.rescue.node_decisions import NodeAction
from rules.rescue.voter_override import OverrideOutcome, initial_controllers
from streaming.rescue.assessed_disk import AssessedDisk
from streaming.rescue.probed_endpoints import EndpointResult, ProbedEndpoint
from streaming.rescue.procedure import steps
from streaming.rescue.rescue_plan import RescuePlan, transcript

_HEADLINES = {
    OverrideOutcome.PASSED: (" PASSED ", "bold black on green", "only endpoints change"),
    OverrideOutcome.NO_CHANGE: (" NO CHANGE ", "bold black on green", "the disks already hold these voters"),
    OverrideOutcome.REJECTED: (" REJECTED ", "bold white on red", "node ids or directory ids change"),
}


def plan_text(plan: RescuePlan, probes: Sequence[ProbedEndpoint] = ()) -> Text:
    """Returns headline, disks, warnings, what the override would print for each disk, and the steps.

    Args:
        plan: the plan.
        probes: what answers at the proposed endpoints.
    """
    word, style, why = _headline(plan)
    out = Text.assemble((word, style), (f" cluster {visible(plan.cluster_id or 'unknown')}: {why}", "bold"))
    out.append("; nothing was written\n", "dim")
    for one in plan.disks:
        out.append(f"  {_disk(one)}\n")
    if plan.survival is not None:
        best = and_join(plan.survival.best)
        held = "every committed record" if plan.survival.holds_all_committed else "more than the other disks"
        each = "it holds" if len(plan.survival.best) == 1 else "each holds"
        out.append(f"  continue with {visible(best)}: {each} {held}\n", "bold")
        recorded = initial_controllers(plan.survival.voters.voters)
        out.append(f"  recorded: --initial-controllers {visible(recorded or 'unknown')}\n")
    for probed in probes:
        style = "yellow" if probed.result is EndpointResult.ANOTHER else ""
        out.append(f"  probe: {visible(probed.text)}\n", style)
    for warning in plan.warnings:
        out.append(f"  warning: {visible(warning)}\n", "yellow")
    if plan.provided is not None:
        for one in plan.disks:
            if plan.outcome is OverrideOutcome.PASSED and plan.decision(one.key).action is not NodeAction.APPLY:
                # "Validation: PASSED" would contradict the plan, which does not change this node.
                continue
            out.append("\n")
            for line in transcript(one, plan.provided):
                out.append(f"  {visible(line)}\n", "dim")
    for step in steps(plan):
        command = not step.startswith("#")
        line = visible(step if command else step.removeprefix("#").strip())
        out.append(f"  {'$ ' if command else '- '}{line}\n", "green" if command else "")
    out.rstrip()
    return out


def _headline(plan: RescuePlan) -> tuple[str, str, str]:
    """Returns a word, its style, and a clause."""
    if plan.startable:
        return (" NO RESCUE IS NEEDED ", "bold black on green", "its voters only have to be started")
    if plan.outcome is None:
        return (" ASSESSED ", "bold white on blue", "no list was given")
    if plan.outcome is OverrideOutcome.PASSED and plan.refusal is not None:
        return (" REFUSED ", "bold white on red", plan.refusal)
    return _HEADLINES[plan.outcome]


def _disk(one: AssessedDisk) -> str:
    disk = one.disk
    role = "voter" if one.is_voter else "not a voter"
    committed = f", committed below {disk.committed_below}" if disk.committed_below else ""
    ends = f"log ends at {disk.end_offset} in epoch {'unknown' if disk.epoch is None else disk.epoch}{committed}"
    return visible(f"{one.key} ({role}, {disk.folder}): {ends}, newest record {iso(one.replayed.newest_ms)}")


def plan_json(plan: RescuePlan) -> dict[str, Plain]:
    """Returns the fields of `rescue plan --json`."""
    survived = plan.survival
    return {
        "cluster_id": plan.cluster_id,
        "outcome": None if plan.outcome is None else plan.outcome.value,
        "written": False,
        "go_on_with": [str(key) for key in survived.best] if survived else [],
        "holds_all_committed": survived.holds_all_committed if survived else False,
        "electable": survived.electable if survived else False,
        "refused": plan.refusal,
        "wanted": None if plan.provided is None else initial_controllers(plan.provided),
        "startable": [str(key) for key in plan.startable],
        "proposed_initial_controllers": None if plan.proposed is None else initial_controllers(plan.proposed),
        "absent_voters": [str(key) for key in survived.absent] if survived else [],
        "initial_controllers": initial_controllers(survived.voters.voters) if survived else None,
        "disks": [_disk_json(one, plan) for one in plan.disks],
        "warnings": [*plan.warnings],
        "steps": [*steps(plan)],
    }


def _disk_json(one: AssessedDisk, plan: RescuePlan) -> dict[str, Plain]:
    disk, change = one.disk, one.difference
    decision = plan.decision(one.key)
    return {
        "folder": str(disk.folder),
        "node_id": one.key.id,
        "directory_id": one.key.directory_id,
        "voter": one.is_voter,
        "log_end_offset": disk.end_offset,
        "last_epoch": disk.epoch,
        "committed_below": disk.committed_below,
        "newest_record_at": iso(one.replayed.newest_ms),
        "voters": initial_controllers(one.voters.voters),
        "voters_offset": one.voters.offset,
        "outcome": change.outcome.value if change else None,
        "difference": str(change) if change else None,
        "snapshot": one.snapshot if change and change.outcome is OverrideOutcome.PASSED else None,
        "action": decision.action.value,
        "reason": decision.reason,
    }
