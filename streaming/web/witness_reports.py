"""The operation by which the hosts of nodes report to a relay what they see.

A relay has no status, so that the job alone knows of which nodes a cluster is: rows of others change nothing there.
"""

from collections.abc import Callable, Collection, Mapping

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from connectors.errors import UsageError
from connectors.witness.witness_row import parsed_row
from rules.model.witness import WitnessRow
from streaming.web.application import REPORTS

ACCEPTED = {"status": "accepted"}, 202
NOT_TAKEN = {"status": "the gatherer does not take it now: try again"}, 503


def other_cluster(row: WitnessRow, cluster_id: str | None) -> str | None:
    """Returns why a row is none of the cluster with this id; None if it is one."""
    if row.cluster_id == cluster_id:
        return None
    return f"cluster_id: the row is of cluster id {row.cluster_id}, not {cluster_id}"


def witness_reports(
    ids: Mapping[str, str], written: Callable[[], Collection[str]], report: Callable[[str, WitnessRow], bool]
) -> Blueprint:
    """Returns the path of the job's API at which a relay takes rows.

    Args:
        ids: the cluster ids of the relay's clusters, by name.
        written: returns the clusters whose rows this relay writes.
        report: passes a row of a cluster on; returns whether it is taken.
    """
    blueprint = Blueprint("witness", __name__)

    @blueprint.post("/api/clusters/<name>/witness", endpoint=REPORTS)
    def take(name: str) -> ResponseReturnValue:
        cluster = next((each for each, cluster_id in ids.items() if name in (each, cluster_id)), None)
        if cluster is None:
            return {"status": "this relay has no cluster of that name"}, 404
        try:
            row = parsed_row(request.get_data())
        except UsageError as problem:
            return {"status": str(problem)}, 400
        if (foreign := other_cluster(row, ids[cluster])) is not None:
            return {"status": foreign}, 409
        if cluster not in written():
            return {"status": f"another relay writes {cluster}: report to that one too (--report twice)"}, 503
        return ACCEPTED if report(cluster, row) else NOT_TAKEN

    return blueprint
