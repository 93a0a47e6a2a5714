"""`kraftwatch audit`: everything that is kept, held against every data contract."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from connectors.errors import UsageError
from connectors.journal.reader import Journal
from connectors.observation import Observation
from connectors.sinks.evidence_format import visible
from rules.finding import Plain
from rules.formatting import counted
from streaming.cli.options import AsJson, print_json
from streaming.data_quality.docs_folder import make_ours
from streaming.pipeline.checkpoint import Checkpoint

if TYPE_CHECKING:
    from streaming.data_quality.alert_contracts import Line
    from streaming.data_quality.violations import Broken, Tally

CheckpointFolder: TypeAlias = Annotated[
    Path | None, typer.Option("--checkpoint", help="The job's --checkpoint folder: journal and ledger.", metavar="DIR")
]
JournalFolder: TypeAlias = Annotated[
    Path | None, typer.Option("--journal", help="A journal by itself, as CHECKPOINT/journal is one.", metavar="DIR")
]
PATIENCE_S = 2.0
"""What takes no longer needs no progress bar."""


def audit(
    checkpoint: CheckpointFolder = None,
    journal: JournalFolder = None,
    alerts: Annotated[
        Path | None, typer.Option("--alerts", help="The file of a jsonl sink as well.", metavar="FILE")
    ] = None,
    cluster: Annotated[
        list[str] | None,
        typer.Option("--cluster", help="Only this cluster's rows. May be given again.", metavar="NAME"),
    ] = None,
    docs: Annotated[
        Path | None, typer.Option("--docs", help="Write pages to look at (Data Docs) into this folder.", metavar="DIR")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Hold all that was recorded and told against every data contract.

    Reads; asks no cluster, and disturbs no job that runs. Memory stays bounded
    whatever the size: a million rows take minutes.

    Exit codes: 0 every contract is kept, 1 some are broken, 2 usage, 3 the
    machine failed (a full disk, a folder that may not be read): no answer.

      kraftwatch audit --checkpoint DIR --docs /tmp/audit
    """
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    place = _journal(checkpoint, journal, alerts)
    lines = _lines(checkpoint, alerts)
    wanted = frozenset(cluster or ())
    if docs is not None:
        make_ours(docs)
    tally, page = _audited(place, lines, wanted, docs, console)
    if as_json:
        print_json(_plain(tally, page))
    else:
        _show(tally, page, console)
    raise typer.Exit(1 if tally.broken else 0)


def _audited(
    place: Journal | None,
    lines: "Sequence[Iterable[Line]]",
    wanted: frozenset[str],
    docs: Path | None,
    console: Console,
) -> "tuple[Tally, Path | None]":
    # Seconds and 250 MB: only when there is something to audit.
    from streaming.data_quality.audit import Audit
    from streaming.data_quality.contract import Suite
    from streaming.data_quality.contract_table import Table
    from streaming.data_quality.data_docs import Docs
    from streaming.data_quality.expectations import Validator
    from streaming.data_quality.violations import Tally

    tally, validator = Tally(), Validator()
    pages = None if docs is None else Docs(docs, validator)

    def evaluate(suite: Suite, table: Table) -> None:
        result, broken = validator.validate(suite, table)
        tally.add(suite, len(table), broken)
        if pages is not None:
            pages.keep(suite, result)

    run = Audit(evaluate)
    if place is not None:
        first, end = place.first(), place.published()
        with _progress(end - first, console) as progress:
            run.journal(_of(place.read(first, end), wanted, place), progress=progress)
    for each in lines:
        run.alerts(line for line in each if not wanted or line.told.get("cluster") in wanted)
    return tally, None if pages is None else pages.write(tally)


def _journal(checkpoint: Path | None, journal: Path | None, alerts: Path | None) -> Journal | None:
    if checkpoint is not None and journal is not None:
        raise UsageError("give --checkpoint or --journal, not both")
    if checkpoint is None and journal is None:
        if alerts is None:
            raise UsageError("nothing to audit: give --checkpoint DIR, as `kraftwatch run` keeps it")
        return None
    folder = Checkpoint(folder=checkpoint).journal if checkpoint is not None else journal
    assert folder is not None
    place = Journal(folder.absolute())
    if not place.created:
        option = "--checkpoint" if checkpoint is not None else "--journal"
        raise UsageError(f"{option} {checkpoint or journal}: no journal is there; give the folder of `kraftwatch run`")
    return place


def _lines(checkpoint: Path | None, alerts: Path | None) -> "Sequence[Iterable[Line]]":
    from streaming.data_quality.alert_contracts import of_a_file, of_the_ledger

    if alerts is not None and not alerts.is_file():
        raise UsageError(f"--alerts {alerts}: no such file; name the one that --sink jsonl:FILE writes")
    ledger = [] if checkpoint is None else [of_the_ledger(Checkpoint(folder=checkpoint).ledger)]
    return [*ledger, *([] if alerts is None else [of_a_file(alerts)])]


def _of(rows: Iterable[Observation], wanted: frozenset[str], place: Journal) -> Iterator[Observation]:
    """The rows of the clusters that are wanted; all, where none is named."""
    names: set[str] = set()
    for row in rows:
        names.add(row.cluster)
        if not wanted or row.cluster in wanted:
            yield row
    if missing := wanted - names:
        held = ", ".join(sorted(names)) or "none"
        raise UsageError(f"--cluster {min(missing)}: {place.directory} has no rows of it; it holds {held}")


def _plain(tally: "Tally", page: Path | None) -> dict[str, Plain]:
    return {
        "kept": not tally.broken,
        "rows": {suite.value: rows for suite, rows in tally.rows.items()},
        "broken": [one.plain() for one in tally.broken],
        "docs": None if page is None else str(page),
    }


def _show(tally: "Tally", page: Path | None, console: Console) -> None:
    for one in tally.broken:
        _tell(one)
    held = ", ".join(f"{rows} {suite.value}" for suite, rows in tally.rows.items())
    word = f"{counted(len(tally.broken), 'contract')} broken" if tally.broken else "every contract is kept"
    console.print(f"kraftwatch: {word}; held: {held}", markup=False)
    if page is not None:
        console.print(f"kraftwatch: pages to look at: {page}", markup=False)


def _tell(one: "Broken") -> None:
    from streaming.data_quality.violations import example_of

    contract = one.contract
    typer.echo(f"{contract.severity.value}  {contract.name}  ({contract.suite.value})")
    typer.echo(f"  {contract.promise}; {counted(one.rows, 'row')} not")
    typer.echo(f"  {contract.why} ({contract.source})")
    clusters = sorted({str(each["cluster"]) for each in one.examples if each.get("cluster")})
    typer.echo(f"  one of them, of {', '.join(clusters) or 'no cluster'}: {visible(example_of(one))}")


@contextmanager
def _progress(rows: int, console: Console) -> Iterator[Callable[[int], None]]:
    """A bar on stderr for what takes long."""
    if not console.is_terminal:
        yield lambda count: None
        return
    began = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"auditing {rows} rows", total=rows, visible=False)
        yield lambda count: progress.update(task, completed=count, visible=time.monotonic() - began > PATIENCE_S)
