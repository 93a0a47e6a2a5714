"""Checks one node against a plan of all nodes that `rescue plan --json` wrote: `rescue apply --plan FILE`.

A node alone does not know the other logs. The plan does: which node is left as it is, and which log is more complete.
"""

from pathlib import Path
from typing import Any

from connectors.errors import UsageError
from connectors.store.stored_json import parse_json
from rules.model.voter_set import Voter
from rules.rescue.node_decisions import NodeAction
from rules.rescue.voter_override import initial_controllers
from streaming.rescue.assessed_disk import AssessedDisk


def require_planned(file: Path, disk: AssessedDisk, cluster_id: str | None, provided: tuple[Voter, ...]) -> None:
    """Returns if the plan has this node rescued with this list, and the node is as it was when the plan was made.

    Raises:
        UsageError: it is not, the plan refuses the rescue, or the file is no plan.
    """
    try:
        plan = parse_json(file.read_bytes())
        if plan["cluster_id"] != cluster_id:
            raise UsageError(f"{file} is a plan of cluster {plan['cluster_id']}, and this node is of {cluster_id}")
        if plan["refused"] is not None:
            raise UsageError(f"{file}: the plan refuses the rescue: {plan['refused']}")
        if plan["wanted"] != initial_controllers(provided):
            raise UsageError(f"{file} is a plan for other voters: {plan['wanted']}; make the plan again for this list")
        planned = [one for one in plan["disks"] if _is(one, disk)]
        if not planned:
            raise UsageError(f"{file} does not have node {disk.key}: make the plan again with its log directory")
        _require_same(file, planned[0], disk)
    except OSError as problem:
        raise UsageError(f"cannot read the plan {file}: {(problem.strerror or str(problem)).lower()}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{file} is not a plan: write it with `kraftwatch rescue plan --json`") from None


def _is(planned: dict[str, Any], disk: AssessedDisk) -> bool:
    return (planned["node_id"], planned["directory_id"]) == (disk.key.id, disk.key.directory_id)


def _require_same(file: Path, planned: dict[str, Any], disk: AssessedDisk) -> None:
    if planned["action"] != NodeAction.APPLY:
        raise UsageError(f"{file}: node {disk.key.id} is not to be changed: {planned['reason']}")
    before, now = (planned["log_end_offset"], planned["last_epoch"]), (disk.disk.end_offset, disk.disk.epoch)
    if before != now:
        raise UsageError(
            f"{file}: the log of node {disk.key.id} ended at offset {before[0]} in epoch {before[1]} when the plan was "
            f"made, and ends at {now[0]} in epoch {now[1]} now: make the plan again"
        )
