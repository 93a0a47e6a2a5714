"""The elections of a quorum according to its metadata log: their number, and the longest time without a leader."""

import json
from itertools import pairwise

from typer.testing import CliRunner

from deploy.lab.lab import Lab
from streaming.cli import app

LONG_ELECTION_S = 3.0
"""A shorter election ends well before the default hold of no-leader, even if it is observed late."""
MANY_ELECTIONS = 4
"""So many within 15 minutes are churn, beyond the elections that restarts explain."""


def log_gaps_s(lab: Lab) -> list[float]:
    """Returns how long nothing was appended to the log before each election except the first, in seconds."""
    log = max(lab.node(lab.controllers[0]).metadata_log.glob("*.log"))
    decoded = CliRunner().invoke(app, ["data", "decode", str(log), "--json"]).stdout
    records = [(one["type"], one["timestamp"]) for one in map(json.loads, decoded.splitlines())]
    return [(now - before) / 1000 for (_, before), (kind, now) in pairwise(records) if kind == "LeaderChange"]


def rules_expected_by_elections(lab: Lab) -> set[str]:
    """Returns the rules that must fire because of these elections: on a stalled machine they are long, and many."""
    gaps = log_gaps_s(lab)
    long, many = max(gaps, default=0) > LONG_ELECTION_S, len(gaps) + 1 >= MANY_ELECTIONS
    return {rule for rule, expected in (("no-leader", long), ("epoch-churn", many)) if expected}
