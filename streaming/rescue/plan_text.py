"""A rescue's dry run for people."""

from rich.text import Text

from connectors.sinks.alert_json import iso
from connectors.sinks.evidence_format import visible
from rules.formatting import listed
from rules.rescue.voter_override import Outcome, initial_controllers
from streaming.rescue.rescue_plan import Assessed, Plan, steps, transcript

_WORDS = {
    Outcome.PASSED: (" PASSED ", "bold black on green", "only endpoints change"),
    Outcome.NO_CHANGE: (" NO CHANGE ", "bold black on green", "the disks hold these voters already"),
    Outcome.REJECTED: (" REJECTED ", "bold white on red", "node ids or directory ids change"),
}


def text(made: Plan) -> Text:
    """Headline, the disks, what to know, what the override would print for each, and the steps."""
    word, style, why = (" ASSESSED ", "bold white on blue", "no list was given")
    if made.outcome is not None:
        word, style, why = _WORDS[made.outcome]
    out = Text.assemble((word, style), (f" cluster {visible(made.cluster_id or 'unknown')}: {why}", "bold"))
    out.append("; nothing was written\n", "dim")
    for one in made.disks:
        out.append(f"  {_disk(one)}\n")
    if made.survival is not None:
        best = listed(made.survival.best)
        held = "all that was committed" if made.survival.holds_all_committed else "the most of these disks"
        each = "it holds" if len(made.survival.best) == 1 else "each holds"
        out.append(f"  go on with {visible(best)}: {each} {held}\n", "bold")
        recorded = initial_controllers(made.survival.voters.voters)
        out.append(f"  recorded: --initial-controllers {visible(recorded or 'unknown')}\n")
    for warning in made.warnings:
        out.append(f"  mind: {visible(warning)}\n", "yellow")
    if made.provided is not None:
        for one in made.disks:
            out.append("\n")
            for line in transcript(one, made.provided):
                out.append(f"  {visible(line)}\n", "dim")
    for step in steps(made):
        command = not step.startswith("#")
        said = visible(step if command else step.removeprefix("#").strip())
        out.append(f"  {'$ ' if command else '- '}{said}\n", "green" if command else "")
    out.rstrip()
    return out


def _disk(one: Assessed) -> str:
    disk = one.disk
    role = "voter" if one.is_voter else "no voter"
    committed = f", committed below {disk.committed_below}" if disk.committed_below else ""
    ends = f"log ends at {disk.end_offset} in epoch {'unknown' if disk.epoch is None else disk.epoch}{committed}"
    return visible(f"{one.key} ({role}, {disk.folder}): {ends}, newest record {iso(one.read.newest_ms)}")
