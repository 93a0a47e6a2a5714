"""The page, `kraftwatch status` and `kraftwatch check` at one moment, and whether they agree."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.job.configured_job import ConfiguredJob
from tests.job.job_state import cluster_health, cluster_status

ATTEMPTS = 3
"""The three are not asked at the same instant: an age may pass its threshold between two of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedViews:
    """What each view shows."""

    health: str
    """On the page."""
    exit_code: int
    """Of `check`."""
    leader: int | None
    differences: tuple[str, ...]
    """Empty if all three agree."""


def compared_views(job: ConfiguredJob) -> ComparedViews:
    """Asks all three, at most `ATTEMPTS` times while they differ."""
    views = _ask(job)
    for _ in range(ATTEMPTS - 1):
        if not views.differences:
            break
        views = _ask(job)
    return views


def _ask(job: ConfiguredJob) -> ComparedViews:
    health, page = cluster_health(job), cluster_status(job)
    status, check = job.printed("status"), job.printed("check")
    differences = []
    if health != check["health"]:
        differences.append(f"health: the page {health}, check {check['health']}")
    if page["leader_id"] != status["leader_id"]:
        differences.append(f"leader: the page {page['leader_id']}, status {status['leader_id']}")
    rules = {"page": _rules(page), "status": _rules(status), "check": _rules(check)}
    if len({tuple(found) for found in rules.values()}) > 1:
        differences += [f"{view}: {', '.join(found) or 'no finding'}" for view, found in rules.items()]
    return ComparedViews(
        health=health,
        exit_code=check["exit_code"],
        leader=status["leader_id"],
        differences=tuple(differences),
    )


def _rules(view: Mapping[str, Any]) -> Sequence[str]:
    return sorted({finding["rule"] for finding in view["findings"]})
