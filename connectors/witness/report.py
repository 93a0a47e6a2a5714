"""Reports a `WitnessRow` to a running job, by its API."""

import json
from typing import Final
from urllib.parse import quote

from connectors.settings.secret import Secret
from connectors.sinks.http_request import post
from connectors.sinks.sink import Retry
from connectors.witness.witness_row import row_json
from rules.formatting import shortened
from rules.model.witness import WitnessRow

_REQUEST_S: Final = 5.0
"""A row that comes later than it could is no reason to wait: the next one follows."""
_WHY: Final = 200


def report_problem(row: WitnessRow, url: str, cluster: str, token: Secret | None) -> str | None:
    """Sends a row to the job whose page has this URL; returns why the job does not take it, None if it does.

    Args:
        row: what this host saw.
        url: of the page; a path of it, such as that of a proxy, is kept.
        cluster: the name in the job's configuration, or the cluster's id.
        token: of the page's listen_witness_token_file.

    Raises:
        UsageError: the token cannot be read.
    """
    headers = {} if token is None else {"Authorization": f"Bearer {token.read()}"}
    path = f"/api/clusters/{quote(cluster, safe='')}/witness"
    answer = post(url.rstrip("/") + path, json.dumps(row_json(row)).encode(), seconds=_REQUEST_S, headers=headers)
    if isinstance(answer, Retry):
        return answer.reason
    match answer.json:
        case {"status": "accepted"} if answer.accepts:
            return None
        case {"status": str(why)} if not answer.accepts:
            return f"HTTP {answer.status}: {shortened(why, _WHY)}"
        case _:
            return "the answer is not that of a job of this version: check the URL"
