"""`kraftwatch quarantine`: what did not decode: listed, explained, and decoded once more."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from connectors.errors import UsageError
from connectors.journal.reader import Journal
from connectors.sinks.alert_json import iso
from connectors.sinks.evidence_format import visible
from rules.finding import Plain
from rules.model.identifiers import Millis
from streaming.cli.options import AsJson, print_json
from streaming.cli.output import printed, say
from streaming.config import Config
from streaming.data_quality.quarantine_report import Again, Held, Now, again, held
from streaming.pipeline.checkpoint import Checkpoint

app = typer.Typer(
    no_args_is_help=True,
    help="""What was recorded and did not decode: listed, explained, decoded once more.

It is told as the alert data-contract-broken (every-record-decodes). The job
goes on without it. Nothing here asks a cluster, or changes anything.
""",
)

CheckpointFolder: TypeAlias = Annotated[
    Path, typer.Option("--checkpoint", help="The job's --checkpoint folder.", metavar="DIR")
]
ClusterName: TypeAlias = Annotated[str | None, typer.Option("--cluster", help="Only of this cluster.", metavar="NAME")]
Limit: TypeAlias = Annotated[int, typer.Option(min=1, help="At most so many, the newest.")]
Ids: TypeAlias = Annotated[
    list[str] | None, typer.Argument(help="Which, as `list` shows them; all by default.", metavar="ID")
]

_CHECKPOINT: Path = Config.model_fields["checkpoint"].default
_SHOWN = 50
_MARKS = {Now.DECODES: "decodes now", Now.BLANKED: "known now, but blank", Now.NOT_YET: "still not", Now.GONE: "gone"}


@app.command("list")
def list_(
    checkpoint: CheckpointFolder = _CHECKPOINT,
    cluster: ClusterName = None,
    limit: Limit = _SHOWN,
    *,
    as_json: AsJson = False,
) -> None:
    """What is in quarantine, oldest first, and the reasons by how often they occur.

    kraftwatch quarantine list --checkpoint DIR
    """
    things = _of(checkpoint, cluster)
    shown = things[-limit:]
    if as_json:
        for one in shown:
            print_json(one.plain())
        return
    if not things:
        say("nothing is in quarantine")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("id", "observed", "offset", "bytes", "why"):
        table.add_column(column, no_wrap=column in ("id", "observed"))
    for one in shown:
        when = iso(Millis(one.observed_at_ms))
        offset = "-" if one.offset is None else str(one.offset)
        table.add_row(Text(visible(one.id)), when, offset, str(one.length), Text(visible(one.reason)))
    printed().print(table)
    if len(things) > len(shown):
        say(f"{len(things) - len(shown)} older ones are not shown: --limit {len(things)} shows all")
    for reason, count in Counter(one.reason for one in things).most_common(5):
        say(f"{count} times: {visible(reason)}")


@app.command("show")
def show(
    which: Annotated[str, typer.Argument(help="Its id, as `list` shows it.", metavar="ID")],
    checkpoint: CheckpointFolder = _CHECKPOINT,
    *,
    as_json: AsJson = False,
) -> None:
    """One of them: where it stood, why it did not decode, what that means and what to do.

    kraftwatch quarantine show ID --checkpoint DIR
    """
    (one,) = _named([which], _of(checkpoint, None), checkpoint)
    (found,) = again([one], _journal(checkpoint))
    if as_json:
        print_json({**_plain(found), "advice": one.advice})
        return
    typer.echo(f"{visible(one.id)}: {visible(one.reason)}")
    where = "a look" if one.offset is None else f"offset {one.offset}"
    typer.echo(f"  {where} of cluster {visible(one.cluster)}, {one.length} bytes, in row {one.sequence} of the journal")
    typer.echo(f"  observed {iso(Millis(one.observed_at_ms))}")
    if found.row is not None:
        row = found.row
        span = "" if row.base_offset is None else f", offsets {row.base_offset} to {row.last_offset}"
        typer.echo(f"  the row: {row.kind.value}{span}, {len(row.payload)} bytes")
    typer.echo(f"  now: {_MARKS[found.now]}: {visible(found.why)}")
    typer.echo(f"  what it means: {one.advice}")


@app.command("replay")
def replay(
    which: Ids = None,
    checkpoint: CheckpointFolder = _CHECKPOINT,
    cluster: ClusterName = None,
    limit: Limit = _SHOWN,
    *,
    as_json: AsJson = False,
) -> None:
    """Decode them once more with this kraftwatch, from the journal's bytes, and say what comes of it.

    Try it after an upgrade. It changes nothing: what was missed is judged only
    by a job with a new --checkpoint, which reads the log anew.

    Exit codes: 0 all decode now, 1 some do not or are gone, 2 usage.

      kraftwatch quarantine replay --checkpoint DIR
    """
    things = _of(checkpoint, cluster)
    chosen = _named(which, things, checkpoint) if which else things
    if not chosen:
        say("nothing is in quarantine")
        return
    console = Console(stderr=True, highlight=False)
    found = [
        *track(
            again(chosen, _journal(checkpoint)),
            total=len(chosen),
            console=console,
            description="decoding",
            transient=True,
            disable=not console.is_terminal,
        )
    ]
    for one in found[-limit:]:
        if as_json:
            print_json(_plain(one))
        else:
            typer.echo(f"{visible(one.held.id)}  {_MARKS[one.now]}: {visible(one.why)}")
    counts = Counter(one.now for one in found)
    said = ", ".join(f"{counts[now]} {_MARKS[now]}" for now in Now if counts[now])
    say(said + (f"; {len(found) - limit} are not shown" if len(found) > limit else ""))
    raise typer.Exit(0 if counts[Now.DECODES] == len(found) else 1)


def _of(checkpoint: Path, cluster: str | None) -> Sequence[Held]:
    if not checkpoint.is_dir():
        raise UsageError(f"--checkpoint {checkpoint}: no such folder; name the one that `kraftwatch run` keeps")
    things = held(Checkpoint(folder=checkpoint).quarantine)
    return things if cluster is None else [one for one in things if one.cluster == cluster]


def _named(which: Sequence[str], things: Sequence[Held], checkpoint: Path) -> Sequence[Held]:
    by_id = {one.id: one for one in things}
    for name in which:
        if name not in by_id:
            raise UsageError(
                f"nothing called {name} is in the quarantine of {checkpoint}: kraftwatch quarantine list shows what is"
            )
    return sorted({by_id[name] for name in which}, key=lambda one: (one.sequence, one.ordinal))


def _journal(checkpoint: Path) -> Journal:
    journal = Journal(Checkpoint(folder=checkpoint).journal.absolute())
    if not journal.created:
        raise UsageError(f"--checkpoint {checkpoint} has no journal: the bytes of what is in quarantine are not there")
    return journal


def _plain(one: Again) -> dict[str, Plain]:
    return {**one.held.plain(), "now": one.now.value, "why": one.why}
