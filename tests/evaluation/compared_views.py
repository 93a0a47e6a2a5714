"""The page, `kraftwatch status` and `kraftwatch check` at one moment, and whether they agree."""

from typing import Any

from tests.job.configured_job import ConfiguredJob
from tests.job.job_state import cluster_health, cluster_status

ATTEMPTS = 3
"""The three are not asked at the same instant: an age may pass its threshold between two of them."""


def compared_views(job: ConfiguredJob) -> dict[str, Any]:
    """Returns the health on the page, the exit code of `check`, the leader, and where the three differ, at most
    `ATTEMPTS` times while they do.
    """
    views = _ask(job)
    for _ in range(ATTEMPTS - 1):
        if views["differences"]:
            views = _ask(job)
    return views


def _ask(job: ConfiguredJob) -> dict[str, Any]:
    health, page = cluster_health(job), cluster_status(job)
    status, check = job.printed("status"), job.printed("check")
    differences = []
    if health != check["health"]:
        differences.append(f"health: the page {health}, check {check['health']}")
    if page["leader_id"] != status["leader_id"]:
        differences.append(f"leader: the page {page['leader_id']}, status {status['leader_id']}")
    rules = {
        view: sorted({finding["rule"] for finding in shown["findings"]})
        for view, shown in {"page": page, "status": status, "check": check}.items()
    }
    if len({tuple(found) for found in rules.values()}) > 1:
        differences += [f"{view}: {', '.join(found) or 'no finding'}" for view, found in rules.items()]
    return {
        "health": health,
        "exit_code": check["exit_code"],
        "leader": status["leader_id"],
        "differences": differences,
    }
