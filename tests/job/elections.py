"""The elections of a quorum by its own log: how many, and for how long nobody led."""

import json
from itertools import pairwise

from typer.testing import CliRunner

from deploy.lab.lab import Lab
from streaming.cli import app

SURE_S = 3.0
"""An election that is over sooner is over long before no-leader's default hold, however late we hear of it."""
MANY = 4
"""So many within 15 minutes are churn, beyond those that restarts explain."""


def gaps_s(lab: Lab) -> list[float]:
    """How long the log stood still before each election but the first."""
    log = max(lab.node(lab.controllers[0]).metadata_log.glob("*.log"))
    said = CliRunner().invoke(app, ["decode", str(log), "--json"]).stdout
    records = [(one["type"], one["timestamp"]) for one in map(json.loads, said.splitlines())]
    return [(now - before) / 1000 for (_, before), (kind, now) in pairwise(records) if kind == "LeaderChange"]


def worth_telling(lab: Lab) -> set[str]:
    """The rules that have to speak of these elections: a machine that stands still makes long ones, and many."""
    gaps = gaps_s(lab)
    long, many = max(gaps, default=0) > SURE_S, len(gaps) + 1 >= MANY
    return {rule for rule, true in (("no-leader", long), ("epoch-churn", many)) if true}
