"""`kraftwatch audit`: checks all recorded data against every data contract."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from connectors.errors import UsageError
from streaming.cli.options import AsJson
from streaming.cli.output import print_json, print_message

if TYPE_CHECKING:
    from connectors.observations.observation import Observation
    from connectors.store.journal_reader import JournalReader
    from rules.finding import Plain
    from streaming.data_quality.alert_table import SentAlert
    from streaming.data_quality.contract import Validator, ViolatedContract

CheckpointFolder: TypeAlias = Annotated[
    Path | None, typer.Option("--checkpoint", help="The job's --checkpoint folder: journal and ledger.", metavar="DIR")
]
JournalFolder: TypeAlias = Annotated[
    Path | None, typer.Option("--journal", help="A journal folder alone, such as CHECKPOINT/journal.", metavar="DIR")
]
PATIENCE_S = 2.0
"""The progress bar appears after this time."""
_PAGE = "index.html"
"""Of `--docs`."""


def audit(
    checkpoint: CheckpointFolder = None,
    journal: JournalFolder = None,
    alerts: Annotated[
        Path | None, typer.Option("--alerts", help="Also check the file of a jsonl sink.", metavar="FILE")
    ] = None,
    cluster: Annotated[
        list[str] | None,
        typer.Option("--cluster", help="Only the rows of this cluster. May be repeated.", metavar="NAME"),
    ] = None,
    docs: Annotated[
        Path | None,
        typer.Option("--docs", help="Write an HTML page with the results into this folder.", metavar="DIR"),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Check all recorded observations and alerts against the data contracts.

    Only reads. Queries no cluster and does not disturb a running job. Memory is
    bounded; a million rows take minutes.

    Exit codes: 0 no contract is violated, 1 some are violated, 2 invalid usage,
    3 no result: this machine failed (a full disk, an unreadable folder).

      kraftwatch audit --checkpoint DIR --docs /tmp/audit
    """
    journal_reader = _journal(checkpoint, journal, alerts)
    sent_alerts = _alert_sources(checkpoint, alerts)
    if docs is not None:
        _create_docs_folder(docs)
    found = _run_audit(journal_reader, sent_alerts, frozenset(cluster or ()))
    page = None if docs is None else _write_page(docs, found)
    if as_json:
        print_json(_to_json(found, page))
    else:
        _print(found, page)
    raise typer.Exit(1 if found.broken else 0)


def _run_audit(
    journal: "JournalReader | None", sent_alerts: "Sequence[Iterable[SentAlert]]", clusters: frozenset[str]
) -> "Validator":
    # Imported here: Great Expectations takes seconds and 250 MB.
    from streaming.data_quality.audit import Audit
    from streaming.data_quality.contract import Validator

    validator = Validator()
    run = Audit(validator)
    if journal is not None:
        first, end = journal.first_sequence(), journal.published_end()
        with _progress(end - first) as progress:
            rows = _rows_of(clusters, journal.read(first, end), journal)
            run.journal(rows, restarted_at=journal.restarted_at(), progress=progress)
    for source in sent_alerts:
        run.alerts(alert for alert in source if not clusters or alert.fields.get("cluster") in clusters)
    return validator


def _journal(checkpoint: Path | None, journal: Path | None, alerts: Path | None) -> "JournalReader | None":
    from connectors.store.journal_reader import JournalReader
    from streaming.pipeline.checkpoint import Checkpoint

    if checkpoint is not None and journal is not None:
        raise UsageError("give --checkpoint or --journal, not both")
    if checkpoint is None and journal is None:
        if alerts is None:
            raise UsageError("nothing to audit: give the --checkpoint folder of `kraftwatch run`")
        return None
    folder = Checkpoint(folder=checkpoint).journal if checkpoint is not None else journal
    assert folder is not None
    reader = JournalReader(folder.absolute())
    if not reader.created:
        option = "--checkpoint" if checkpoint is not None else "--journal"
        raise UsageError(
            f"{option} {checkpoint or journal}: no journal is there; give the --checkpoint folder of `kraftwatch run`"
        )
    return reader


def _alert_sources(checkpoint: Path | None, alerts: Path | None) -> "Sequence[Iterable[SentAlert]]":
    from streaming.data_quality.alert_table import jsonl_alerts, ledger_alerts

    if alerts is not None and not alerts.is_file():
        raise UsageError(f"--alerts {alerts}: no such file; give the file of the sink jsonl:FILE")
    ledger = [] if checkpoint is None else [ledger_alerts(checkpoint)]
    return [*ledger, *([] if alerts is None else [jsonl_alerts(alerts)])]


def _rows_of(
    clusters: frozenset[str], rows: "Iterable[Observation]", journal: "JournalReader"
) -> "Iterator[Observation]":
    """Yields the rows of these clusters; all rows if no cluster is given.

    Raises:
        UsageError: at the end, if a cluster has no rows.
    """
    names: set[str] = set()
    for row in rows:
        names.add(row.cluster)
        if not clusters or row.cluster in clusters:
            yield row
    if missing := clusters - names:
        existing = ", ".join(sorted(names)) or "none"
        raise UsageError(f"--cluster {min(missing)}: no rows in {journal.directory}; clusters in it: {existing}")


def _to_json(found: "Validator", page: Path | None) -> "dict[str, Plain]":
    return {
        "kept": not found.broken,
        "rows": {suite.value: rows for suite, rows in found.rows.items()},
        "broken": [one.plain() for one in found.broken],
        "docs": None if page is None else str(page),
    }


def _print(found: "Validator", page: Path | None) -> None:
    from rules.formatting import plural

    for one in found.broken:
        _print_violation(one)
    checked = ", ".join(f"{rows} {suite.value}" for suite, rows in found.rows.items())
    broken = found.broken
    result = f"{plural(len(broken), 'contract')} violated" if broken else "no contract is violated"
    print_message(f"{result}; checked: {checked}")
    if page is not None:
        print_message(f"HTML page: {page}")


def _print_violation(one: "ViolatedContract") -> None:
    from connectors.sinks.evidence_format import visible
    from rules.formatting import plural
    from streaming.data_quality.contract import row_text

    contract = one.contract
    typer.echo(f"{contract.severity.value}  {contract.name}  ({contract.suite.value})")
    typer.echo(f"  {contract.promise}: violated by {plural(one.rows, 'row')}")
    typer.echo(f"  {contract.why} ({contract.source})")
    clusters = sorted({str(each["cluster"]) for each in one.examples if each.get("cluster")})
    typer.echo(f"  example (cluster {', '.join(clusters) or 'unknown'}): {visible(row_text(one.examples[-1]))}")


@contextmanager
def _progress(rows: int) -> Iterator[Callable[[int], None]]:
    """Shows a progress bar on stderr if it is a terminal; yields the function that advances it."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        yield lambda count: None
        return
    started = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"auditing {rows} rows", total=rows, visible=False)
        yield lambda count: progress.update(task, completed=count, visible=time.monotonic() - started > PATIENCE_S)


def _create_docs_folder(folder: Path) -> None:
    """Creates the folder of the page.

    Raises:
        UsageError: the folder contains other files, is not a folder, or cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--docs {folder} is not a folder: name a new or empty one, or one of a previous audit")
    if folder.is_dir() and any(path.name != _PAGE for path in folder.iterdir()):
        raise UsageError(f"--docs {folder} contains other files: name a new or empty folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        reason = (problem.strerror or "unusable").lower()
        raise UsageError(f"--docs {folder}: {reason}; name a writable folder") from None


def _write_page(folder: Path, found: "Validator") -> Path:
    from streaming.data_quality.audit_page import html

    page = folder / _PAGE
    page.write_text(html(found), encoding="utf-8")
    return page
