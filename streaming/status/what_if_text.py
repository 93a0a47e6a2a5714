"""The output of `kraftwatch what-if`."""

from rich.text import Text

from connectors.sinks.evidence_format import visible
from rules.analysis.restart_election import CandidateForecast
from rules.finding import Plain
from rules.formatting import and_join, plural
from streaming.status.what_if import WhatIf


def what_if_text(result: WhatIf) -> Text:
    """Returns the answer, each candidate with its votes, and what was assumed."""
    out = Text()
    match result.electable:
        case None:
            out.append(" UNKNOWN ", "bold black on yellow")
            if result.unknown is None:
                out.append(f" {visible(result.cluster)}: no VotersRecord is known. A static quorum has none.")
                return out
        case True:
            out.append(" ELECTABLE ", "bold black on green")
        case False:
            out.append(" NOT ELECTABLE ", "bold white on red")
    out.append(f" {visible(result.cluster)}: {_conclusion(result)}\n", "bold")
    for one in result.forecast.candidates:
        out.append(f"  {visible(_candidate(one))}\n", "" if one.wins else "dim")
    for sentence in result.assumed:
        out.append(f"  assumption: {visible(sentence)}\n", "yellow")
    out.rstrip()
    return out


def what_if_json(result: WhatIf) -> dict[str, Plain]:
    """Returns the fields of `what-if --json`."""
    return {
        "cluster": result.cluster,
        "electable": result.electable,
        "majority": result.majority,
        "unknown": result.unknown,
        "leader_stays": result.leader_stays,
        "candidates": [
            {
                "node_id": one.key.id,
                "directory_id": one.key.directory_id,
                "votes": len(one.reached),
                "needed": one.needed,
                "wins": one.wins,
                "reached": [key.id for key in one.reached],
                "may_reach": [key.id for key in one.may_reach],
                "barred": {str(key.id): reason for key, reason in one.barred.items()},
            }
            for one in result.forecast.candidates
        ],
        "assumed": [*result.assumed],
    }


def _conclusion(result: WhatIf) -> str:
    if result.leader_stays is not None:
        return f"controller {result.leader_stays} stays the leader"
    if result.unknown is not None:
        return result.unknown
    winners = [one.key.id for one in result.forecast.candidates if one.wins]
    if winners:
        return f"{and_join(winners)} can be elected"
    return f"no controller gets {plural(result.majority or 0, 'vote')}: there would be no leader"


def _candidate(one: CandidateForecast) -> str:
    votes = f"controller {one.key.id}: {plural(len(one.reached), 'vote')} of {one.needed} needed"
    reasons = "; ".join(f"not of {key.id}: {reason}" for key, reason in one.barred.items())
    return f"{votes} ({reasons})" if reasons else votes
