"""`kraftwatch data audit`: all recorded data against every data contract; `quarantine`: what could not be decoded."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from connectors.errors import UsageError
from connectors.process.wall_clock import wall_ms
from rules.formatting import iso, plural, visible
from rules.model.identifiers import Millis, selects
from streaming.cli.config_from_options import check_only, patterns
from streaming.cli.options import (
    AsJson,
    CheckpointFolder,
    ConfigFile,
    FromTime,
    JobPlace,
    Only,
    RecordedOptions,
    database_to_write,
    job_place,
    parse_time_option,
    writable_folder,
)
from streaming.cli.output import print_json, print_message, print_table
from streaming.cli.recorded_job import RecordedJob

if TYPE_CHECKING:
    from connectors.observations.observation import Observation
    from connectors.store.audit_results import AuditResults
    from connectors.store.journal_reader import JournalReader
    from connectors.store.store_place import StorePlace
    from streaming.data_quality.audit import Audit
    from streaming.data_quality.quarantine_report import QuarantinedItem
    from streaming.query.recording import Recording

app = typer.Typer(
    no_args_is_help=True,
    help="""Show recorded data that could not be decoded, and decode it again.

The alert data-contract-broken (every-record-decodes) reports such data. The
job continues without it. These verbs query no cluster and change nothing.
""",
)

Limit: TypeAlias = Annotated[int, typer.Option(min=1, help="How many items to print, the newest.")]
ItemId: TypeAlias = Annotated[str, typer.Argument(help="The item's id, from `list`.", metavar="ID")]
ItemIds: TypeAlias = Annotated[
    list[str] | None, typer.Argument(help="The ids of items, from `list`; default: all.", metavar="ID")
]

_DEFAULT_LIMIT = 50
_PAGE = "index.html"
"""Of `--output`."""


def audit(
    checkpoint: Annotated[
        Path | None, typer.Option(help="The job's --checkpoint folder: journal and ledger.", metavar="DIR")
    ] = None,
    config: ConfigFile = None,
    journal: Annotated[
        Path | None, typer.Option(help="A journal folder alone, such as CHECKPOINT/journal.", metavar="DIR")
    ] = None,
    alerts: Annotated[Path | None, typer.Option(help="Also check the file of a jsonl sink.", metavar="FILE")] = None,
    only: Only = None,
    from_: FromTime = None,
    newest: Annotated[
        int | None, typer.Option(min=1, help="Only so many rows and alerts, the newest ones.", metavar="COUNT")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write an HTML page with the results to this folder.", metavar="DIR")
    ] = None,
    *,
    record: Annotated[
        bool,
        typer.Option(
            "--record",
            help="Record the result of each contract in the job's store: for its alerts, /metrics and `export`.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check all recorded observations and alerts against the data contracts.

    With --config alone, what that job recorded: its journal or, with
    `source: kafka`, the relays' topic. Queries no cluster and does not disturb a
    running job; only --record writes: the job then alerts about violated
    contracts, until the next recorded audit. A million rows take minutes; a
    timer should audit the --newest.

    Exit codes: 0 no contract is violated, 1 some are violated, 2 invalid usage,
    3 no result: this machine failed (a full disk, an unreadable folder).

      kraftwatch data audit --checkpoint DIR --output /tmp/audit

      kraftwatch data audit --checkpoint DIR --newest 5000 --record
    """
    from_ms = parse_time_option("--from", from_)
    if alerts is not None and not alerts.is_file():
        raise UsageError(f"--alerts {alerts}: no such file; give the file of the sink jsonl:FILE")
    clusters = patterns(only)
    recorded, store = _places(checkpoint, journal, config, clusters)
    if recorded is None and alerts is None:
        raise UsageError("nothing to audit: give the --checkpoint folder of `kraftwatch run`, or its --config")
    if newest is not None and (clusters or from_):
        raise UsageError("--newest is for the rows of all clusters: give it without --only and --from")
    if record and (store is None or recorded is None or clusters or alerts or from_):
        raise UsageError(
            "--record is for an audit of a job: give --checkpoint or --config, without --only, --alerts and --from"
        )
    results = None if store is None or not record else _results(store)
    if output is not None and any(path.name != _PAGE for path in writable_folder("--output", output).iterdir()):
        raise UsageError(f"--output {output} contains other files: name a new or empty folder")
    found = _run_audit(recorded, store, alerts, clusters, from_ms, newest)
    if results is not None:
        results.add(found.results(wall_ms()))
    page = None if output is None else _write_page(output, found)
    _print(found, page, as_json=as_json)
    raise typer.Exit(1 if found.broken else 0)


def _places(
    checkpoint: Path | None, journal: Path | None, config: Path | None, clusters: Sequence[str]
) -> "tuple[Recording | None, StorePlace | None]":
    """Returns the rows, and where the alerts are: the configured server, else a checkpoint folder; None: nowhere."""
    if checkpoint is not None and journal is not None:
        raise UsageError("give --checkpoint or --journal, not both")
    given = checkpoint or journal
    if given is None and config is None:
        return None, None
    job = RecordedJob(RecordedOptions(journal=given, config=config), clusters)
    recorded, store = job.recording(), checkpoint
    if config is None or job.config is None:
        return recorded, store
    if given is None and job.config.folder.is_dir():
        store = job.config.folder
    return recorded, job.config.server or store


def _results(store: "StorePlace") -> "AuditResults":
    """Returns where the results are recorded; UsageError if that is not the store of a job."""
    from connectors.store.audit_results import AuditResults

    database = database_to_write(store)
    if not database.exists:
        raise UsageError(
            f"--record: {store} holds no kraftwatch.db: give the --checkpoint folder of a job that was started, or its "
            "--config, which names its store"
        )
    return AuditResults(database)


def _run_audit(
    recorded: "Recording | None",
    store: "StorePlace | None",
    alerts: Path | None,
    clusters: Sequence[str],
    from_ms: Millis | None,
    newest: int | None,
) -> "Audit":
    # Imported here: Great Expectations takes seconds and 250 MB.
    from streaming.data_quality.audit import Audit
    from streaming.data_quality.suite_rows import jsonl_alerts, ledger_alerts

    run = Audit()
    if recorded is not None:
        rows = _rows(recorded, clusters, from_ms) if newest is None else recorded.newest_rows(newest)
        run.recording(rows, recorded.restarts_logs)
    for sent in (None if store is None else ledger_alerts(store), None if alerts is None else jsonl_alerts(alerts)):
        if sent is not None:
            some = sent if newest is None else deque(sent, maxlen=newest)
            run.alerts(each for each in some if selects(clusters, str(each[1].get("cluster"))))
    return run


def _rows(recorded: "Recording", clusters: Sequence[str], from_ms: Millis | None) -> "Iterator[Observation]":
    """Yields the rows of the clusters that match, or all; refuses at the end a pattern that matches none."""
    names: set[str] = set()
    for row in recorded.rows(since_ms=from_ms or Millis(0)):
        names.add(row.cluster)
        in_time = from_ms is None or row.observed_at_ms >= from_ms
        if in_time and selects(clusters, row.cluster):
            yield row
    check_only(clusters, sorted(names))


def _print(found: "Audit", page: Path | None, *, as_json: bool) -> None:
    from streaming.data_quality.audit import row_text

    if as_json:
        broken = [one.plain() for one in found.broken]
        where = None if page is None else str(page)
        print_json({"kept": not broken, "rows": {**found.rows}, "broken": broken, "page": where})
        return
    for one in found.broken:
        contract = one.contract
        typer.echo(f"{contract.severity.value}  {contract.name}  ({contract.suite})")
        typer.echo(f"  {contract.promise}: violated by {plural(one.rows, 'row')}")
        typer.echo(f"  {contract.why} ({contract.source})")
        clusters = ", ".join(one.clusters) or "unknown"
        typer.echo(f"  example (cluster {clusters}): {visible(row_text(one.examples[-1]))}")
    checked = ", ".join(f"{rows} {suite}" for suite, rows in found.rows.items())
    result = f"{plural(len(found.broken), 'contract')} violated" if found.broken else "no contract is violated"
    print_message(f"{result}; checked: {checked}")
    if page is not None:
        print_message(f"HTML page: {page}")


def _write_page(folder: Path, found: "Audit") -> Path:
    """Writes every contract with its reason and the rows that violate it; the page loads nothing."""
    from importlib.resources import files

    from jinja2 import Environment, StrictUndefined

    from streaming.data_quality.audit import CONTRACTS, row_text

    template = (files("streaming.data_quality") / "audit_page.html.j2").read_text(encoding="utf-8")
    broken = {contract.contract.name: contract for contract in found.broken}
    page = Environment(autoescape=True, undefined=StrictUndefined).from_string(template)
    text = page.render(suites=CONTRACTS, rows=found.rows, broken=broken, row_text=row_text)
    written = folder / _PAGE
    written.write_text(text, encoding="utf-8")
    return written


@app.command("list")
def list_(
    checkpoint: CheckpointFolder = None,
    config: ConfigFile = None,
    only: Only = None,
    limit: Limit = _DEFAULT_LIMIT,
    *,
    as_json: AsJson = False,
) -> None:
    """List the quarantined items, oldest first, and the most frequent reasons.

    kraftwatch data quarantine list --checkpoint DIR
    """
    items = _items(job_place(checkpoint, config), only)
    printed = items[-limit:]
    if as_json:
        for item in printed:
            print_json(asdict(item))
        return
    if not items:
        print_message("the quarantine is empty")
        return
    rows = []
    for item in printed:
        offset = "-" if item.offset is None else str(item.offset)
        rows.append((item.id, iso(Millis(item.observed_at_ms)), offset, str(item.length), item.reason))
    print_table(("id", "observed"), ("offset", "bytes", "reason"), rows)
    if len(items) > len(printed):
        print_message(f"{len(items) - len(printed)} older items are not listed: --limit {len(items)} lists all")
    for reason, count in Counter(one.reason for one in items).most_common(5):
        print_message(f"{plural(count, 'time')}: {visible(reason)}")


@app.command("show")
def show(
    item: ItemId, checkpoint: CheckpointFolder = None, config: ConfigFile = None, *, as_json: AsJson = False
) -> None:
    """Explain one item: its position, the reason, its meaning and what to do.

    kraftwatch data quarantine show ID --checkpoint DIR
    """
    from streaming.data_quality.quarantine_report import STATUS_TEXTS, decode_again

    job = job_place(checkpoint, config)
    (one,) = _select([item], _items(job, None), job)
    (retry,) = decode_again([one], _journal(job))
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
    only: Only = None,
    limit: Limit = _DEFAULT_LIMIT,
    *,
    as_json: AsJson = False,
) -> None:
    """Decode items again with this kraftwatch, and print the result of each.

    Use it after an upgrade. It changes nothing: the rules evaluate the missed
    records only in a job with a new --checkpoint, which reads the log again.

    Exit codes: 0 all decode now, 1 some do not decode or are no longer in the
    journal, 2 invalid usage.

      kraftwatch data quarantine replay --checkpoint DIR
    """
    from streaming.data_quality.quarantine_report import DECODES, STATUS_TEXTS, decode_again

    job = job_place(checkpoint, config)
    existing = _items(job, only)
    chosen = _select(items, existing, job) if items else existing
    if not chosen:
        print_message("the quarantine is empty")
        return
    results = [*decode_again(chosen, _journal(job))]
    for result in results[-limit:]:
        if as_json:
            print_json(result.plain())
        else:
            typer.echo(f"{visible(result.item.id)}  {STATUS_TEXTS[result.status]}: {visible(result.reason)}")
    counts = Counter(one.status for one in results)
    totals = ", ".join(f"{counts[each]} {text}" for each, text in STATUS_TEXTS.items() if counts[each])
    print_message(totals + (f"; {len(results) - limit} are not printed" if len(results) > limit else ""))
    raise typer.Exit(0 if counts[DECODES] == len(results) else 1)


def _items(job: JobPlace, only: Sequence[str] | None) -> "Sequence[QuarantinedItem]":
    from connectors.store.collection import quarantine_of
    from connectors.store.tables import job_database
    from streaming.data_quality.quarantine_report import quarantined_items

    items = quarantined_items(quarantine_of(job_database(job.store, read_only=True)).items())
    return [item for item in items if selects(patterns(only), item.cluster)]


def _select(ids: Sequence[str], items: "Sequence[QuarantinedItem]", job: JobPlace) -> "Sequence[QuarantinedItem]":
    by_id = {item.id: item for item in items}
    for each in ids:
        if each not in by_id:
            raise UsageError(
                f"no item {each} in the quarantine of {job.folder}: `kraftwatch data quarantine list` lists the ids"
            )
    return sorted({by_id[each] for each in ids}, key=lambda one: (one.sequence, one.ordinal))


def _journal(job: JobPlace) -> "JournalReader":
    from connectors.store.journal_reader import JournalReader
    from streaming.pipeline.checkpoint import Checkpoint

    journal = JournalReader(Checkpoint(folder=job.folder).journal.absolute())
    if not journal.created:
        raise UsageError(f"--checkpoint {job.folder} has no journal, which holds the bytes of quarantined items")
    return journal
