"""`kraftwatch quarantine`: lists, explains and decodes again the records that could not be decoded."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.table import Table
from rich.text import Text

from connectors.errors import UsageError
from connectors.sinks.alert_json import iso
from connectors.sinks.evidence_format import visible
from rules.formatting import plural
from rules.model.identifiers import Millis
from streaming.cli.options import AsJson, CheckpointFolder, ConfigFile, job_folder, job_store
from streaming.cli.output import print_json, print_message, progress, stdout_console

if TYPE_CHECKING:
    from connectors.store.journal_reader import JournalReader
    from connectors.store.store_place import StorePlace
    from streaming.data_quality.quarantine_report import QuarantinedItem

app = typer.Typer(
    no_args_is_help=True,
    help="""Show recorded data that could not be decoded, and decode it again.

The alert data-contract-broken (every-record-decodes) reports such data. The
job continues without it. These verbs query no cluster and change nothing.
""",
)

ClusterName: TypeAlias = Annotated[str | None, typer.Option(help="Only items of this cluster.", metavar="NAME")]
Limit: TypeAlias = Annotated[int, typer.Option(min=1, help="How many items to print, the newest.")]
ItemId: TypeAlias = Annotated[str, typer.Argument(help="The item's id, from `list`.", metavar="ID")]
ItemIds: TypeAlias = Annotated[
    list[str] | None, typer.Argument(help="The ids of items, from `list`; default: all.", metavar="ID")
]

_DEFAULT_LIMIT = 50


@app.command("list")
def list_(
    checkpoint: CheckpointFolder = None,
    config: ConfigFile = None,
    cluster: ClusterName = None,
    limit: Limit = _DEFAULT_LIMIT,
    *,
    as_json: AsJson = False,
) -> None:
    """List the quarantined items, oldest first, and the most frequent reasons.

    kraftwatch quarantine list --checkpoint DIR
    """
    items = _items(job_store(checkpoint, config), cluster)
    printed = items[-limit:]
    if as_json:
        for one in printed:
            print_json(asdict(one))
        return
    if not items:
        print_message("the quarantine is empty")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("id", "observed", "offset", "bytes", "reason"):
        table.add_column(column, no_wrap=column in ("id", "observed"))
    for one in printed:
        offset = "-" if one.offset is None else str(one.offset)
        when = iso(Millis(one.observed_at_ms))
        table.add_row(Text(visible(one.id)), when, offset, str(one.length), Text(visible(one.reason)))
    stdout_console().print(table)
    if len(items) > len(printed):
        print_message(f"{len(items) - len(printed)} older items are not listed: --limit {len(items)} lists all")
    for reason, count in Counter(one.reason for one in items).most_common(5):
        print_message(f"{plural(count, 'time')}: {visible(reason)}")


@app.command("show")
def show(
    item: ItemId, checkpoint: CheckpointFolder = None, config: ConfigFile = None, *, as_json: AsJson = False
) -> None:
    """Explain one item: its position, the reason, its meaning and what to do.

    kraftwatch quarantine show ID --checkpoint DIR
    """
    from streaming.data_quality.quarantine_report import STATUS_TEXTS, decode_again

    folder = job_folder(checkpoint, config)
    (one,) = _select([item], _items(job_store(checkpoint, config), None), folder)
    (retry,) = decode_again([one], _journal(folder))
    if as_json:
        print_json({**retry.plain(), "advice": one.advice})
        return
    typer.echo(f"{visible(one.id)}: {visible(one.reason)}")
    what = "a whole row" if one.offset is None else f"offset {one.offset}"
    typer.echo(f"  {what} of cluster {visible(one.cluster)}, {one.length} bytes, in row {one.sequence} of the journal")
    typer.echo(f"  observed {iso(Millis(one.observed_at_ms))}")
    if retry.row is not None:
        row = retry.row
        span = "" if row.base_offset is None else f", offsets {row.base_offset} to {row.last_offset}"
        typer.echo(f"  the row: {row.kind.value}{span}, {len(row.payload)} bytes")
    typer.echo(f"  decoded again: {STATUS_TEXTS[retry.status]}: {visible(retry.reason)}")
    typer.echo(f"  meaning: {one.advice}")


@app.command("replay")
def replay(
    items: ItemIds = None,
    checkpoint: CheckpointFolder = None,
    config: ConfigFile = None,
    cluster: ClusterName = None,
    limit: Limit = _DEFAULT_LIMIT,
    *,
    as_json: AsJson = False,
) -> None:
    """Decode items again with this kraftwatch, and print the result of each.

    Use it after an upgrade. It changes nothing: the rules evaluate the missed
    records only in a job with a new --checkpoint, which reads the log again.

    Exit codes: 0 all decode now, 1 some do not decode or are no longer in the
    journal, 2 invalid usage.

      kraftwatch quarantine replay --checkpoint DIR
    """
    from streaming.data_quality.quarantine_report import DECODES, STATUS_TEXTS, decode_again

    folder = job_folder(checkpoint, config)
    existing = _items(job_store(checkpoint, config), cluster)
    chosen = _select(items, existing, folder) if items else existing
    if not chosen:
        print_message("the quarantine is empty")
        return
    results = [*progress(decode_again(chosen, _journal(folder)), "decoding", len(chosen))]
    for one in results[-limit:]:
        if as_json:
            print_json(one.plain())
        else:
            typer.echo(f"{visible(one.item.id)}  {STATUS_TEXTS[one.status]}: {visible(one.reason)}")
    counts = Counter(one.status for one in results)
    totals = ", ".join(f"{counts[each]} {text}" for each, text in STATUS_TEXTS.items() if counts[each])
    print_message(totals + (f"; {len(results) - limit} are not printed" if len(results) > limit else ""))
    raise typer.Exit(0 if counts[DECODES] == len(results) else 1)


def _items(store: "StorePlace", cluster: str | None) -> "Sequence[QuarantinedItem]":
    from connectors.store.collection import quarantine_of
    from connectors.store.tables import job_database
    from streaming.data_quality.quarantine_report import quarantined_items

    items = quarantined_items(quarantine_of(job_database(store, read_only=True)).items())
    return items if cluster is None else [one for one in items if one.cluster == cluster]


def _select(ids: Sequence[str], items: "Sequence[QuarantinedItem]", folder: Path) -> "Sequence[QuarantinedItem]":
    by_id = {one.id: one for one in items}
    for each in ids:
        if each not in by_id:
            raise UsageError(
                f"no item {each} in the quarantine of {folder}: `kraftwatch quarantine list` lists the ids"
            )
    return sorted({by_id[each] for each in ids}, key=lambda one: (one.sequence, one.ordinal))


def _journal(folder: Path) -> "JournalReader":
    from connectors.store.journal_reader import JournalReader
    from streaming.pipeline.checkpoint import Checkpoint

    journal = JournalReader(Checkpoint(folder=folder).journal.absolute())
    if not journal.created:
        raise UsageError(f"--checkpoint {folder} has no journal, which holds the bytes of quarantined items")
    return journal
