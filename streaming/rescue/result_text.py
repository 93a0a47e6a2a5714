"""The output of `rescue apply`."""

from rich.text import Text

from connectors.sinks.evidence_format import visible
from rules.finding import Plain
from rules.formatting import plural
from streaming.rescue.apply_voters import RescueResult


def result_text(result: RescueResult) -> Text:
    """Returns what was done or would be done, as text for a terminal."""
    out = Text()
    for line in result.transcript:
        out.append(f"  {visible(line)}\n", "dim")
    for note in result.notes:
        out.append(f"  note: {visible(note)}\n", "yellow")
    if result.snapshot is None:
        out.append(" NOTHING TO DO ", "bold black on green")
        out.append(f" {visible(str(result.partition))} already holds these voters.")
        return out
    path = visible(str(result.partition / result.snapshot))
    if result.written:
        out.append(" DONE ", "bold black on green")
        out.append(f" wrote {path} with {plural(result.records, 'record')} and the new voters.\n")
        out.append(f"  The files before are in {visible(str(result.backup))}.\n")
        out.append("  Before this node is started, `kraftwatch rescue undo` restores them.")
    else:
        out.append(" DRY RUN ", "bold white on blue")
        out.append(f" --yes would write {path} with {plural(result.records, 'record')} and the new voters,\n")
        out.append(f"  after a copy of all files to {visible(str(result.backup))}. Nothing was written.")
    return out


def result_json(result: RescueResult) -> dict[str, Plain]:
    """Returns the fields of `rescue apply --json`."""
    return {
        "outcome": result.outcome.value,
        "written": result.written,
        "snapshot": None if result.snapshot is None else str(result.partition / result.snapshot),
        "backup": None if result.backup is None else str(result.backup),
        "records": result.records,
        "notes": [*result.notes],
    }
