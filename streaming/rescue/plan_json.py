"""The fields of `rescue plan --json`."""

from connectors.sinks.alert_json import iso
from rules.finding import Plain
from rules.rescue.voter_override import OverrideOutcome, initial_controllers
from streaming.rescue.assessed_disk import AssessedDisk
from streaming.rescue.procedure import steps
from streaming.rescue.rescue_plan import RescuePlan


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
