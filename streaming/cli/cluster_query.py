"""Queries clusters, a journal or a log directory as the options ask, and prints the status.

An invalid option raises UsageError.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import typer
from rich.console import Group, RenderableType

from connectors.errors import StoreError, UsageError
from rules.model.identifiers import selects
from streaming.cli import config_from_options
from streaming.cli.options import AnswerOptions, ClusterOptions, LookBackOptions, RecordedOptions, StatusOptions
from streaming.cli.output import print_json, print_progress, stdout_console

if TYPE_CHECKING:
    from rules.finding import Plain
    from rules.notifications.route import Silence
    from streaming.replay.cluster_settings import ClusterSettings
    from streaming.status.cluster_status import ClusterState, ClusterStatus
    from streaming.status.log_dir_status import LogDirContents

OneT = TypeVar("OneT")
_REPEAT_S = 1.0
INTERRUPTED = 130
"""The exit code of a query that ^C ended."""

Views: TypeAlias = "tuple[Callable[[ClusterStatus], dict[str, Plain]], Callable[[ClusterStatus], RenderableType]]"
"""How a status is printed: as JSON, and as a table."""


def query(
    opts: ClusterOptions, each: "Callable[[Sequence[ClusterState]], bool]" = lambda _: False
) -> "Sequence[ClusterState]":
    """Returns the state of each cluster.

    Args:
        each: called with every result; True requests another query one second later, if clusters are queried.
    """
    if not isinstance(opts, AnswerOptions) or not opts.witness:
        return _query(opts, each)
    from connectors.witness.witness_row import read_row

    rows = [read_row(file) for file in opts.witness]
    from streaming.query.witnesses import with_witnesses

    states = with_witnesses(_query(opts, lambda states: each(with_witnesses(states, rows))), rows)
    used = [row for state in states for row in state.facts.witnesses.rows.values()]
    for row, file in zip(rows, opts.witness, strict=True):
        if row not in used:
            why = "it is of another cluster, of none of its nodes, too old, or not the newest"
            print_progress(f"--witness {file}: not used: {why}")
    return states


def _query(opts: ClusterOptions, each: "Callable[[Sequence[ClusterState]], bool]") -> "Sequence[ClusterState]":
    if opts.job is not None and not opts.live:
        return _states_of_page(opts, each)
    states = _recorded_states(opts) if isinstance(opts, LookBackOptions) else None
    if states is not None:
        each(states)
        return states
    # Imported here: kafka-python takes as long to load as everything else together.
    from streaming.cli.recorded_states import query_targets, recorded_reader
    from streaming.query.live import query_clusters

    job = None if opts.config is None else config_from_options.resolve_config(opts)
    config = config_from_options.resolve_clusters(opts) if job is None else job
    recorded = recorded_reader(opts, job)
    return query_clusters(
        query_targets(config), timeout_s=opts.timeout, say=print_progress, recorded=recorded, each=each
    )


def _states_of_page(opts: ClusterOptions, each: "Callable[[Sequence[ClusterState]], bool]") -> "Sequence[ClusterState]":
    """Returns what the job of `--job` knows now of its clusters, evaluated with its own thresholds."""
    from streaming.cli.recorded_states import job_page

    if opts.setting:
        raise UsageError("--job: the job's own thresholds are used; give --cluster or --config too to use --set")
    page, only = job_page(opts), config_from_options.patterns(opts.only)
    known = [*page.cluster_ids()]
    config_from_options.check_only(only, known)
    names = [name for name in known if selects(only, name)]
    states = page.current_states(names)
    while each(states):
        time.sleep(_REPEAT_S)
        states = page.current_states(names)
    return states


def query_once(opts: ClusterOptions) -> "Sequence[ClusterState]":
    """Returns the state of each cluster, from one query."""
    try:
        return query(opts)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def query_one_cluster(opts: ClusterOptions) -> "ClusterState":
    """Returns the state of the only given cluster."""
    _check_one(opts)
    return only_one(query_once(opts))


def until_true(opts: ClusterOptions, question: "Callable[[ClusterState], bool]", *, within_s: float) -> None:
    """Asks a question about the only given cluster, and again every second until it is true or the time is up."""
    _check_one(opts)
    until = time.monotonic() + within_s
    try:
        query(opts, lambda states: not question(only_one(states)) and time.monotonic() < until)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _check_one(opts: ClusterOptions) -> None:
    if opts.config is None and len(opts.cluster or ()) > 1:
        raise UsageError(f"expected one cluster, but {len(opts.cluster or ())} are given: give one --cluster")


def only_one(found: Sequence[OneT]) -> OneT:
    """Returns the only one of the given clusters, whatever it is of each. Raises UsageError if there are more."""
    if len(found) != 1:
        raise UsageError(f"expected one cluster, but {len(found)} are given: select one with --only NAME")
    return found[0]


def print_status(opts: StatusOptions, views: Callable[[], Views], *, all_recovering: bool = False) -> None:
    """Prints the status of each cluster, as JSON lines or as tables; every second with `--watch`.

    `views` imports what prints: it is called once the clusters have answered.
    """
    console = stdout_console()

    def print_states(states: "Sequence[ClusterState]") -> bool:
        from streaming.status.build_status import RECOVERING_LIMIT, cluster_status

        to_json, to_table = views()
        recovering_limit = None if all_recovering else RECOVERING_LIMIT
        statuses = with_job_alerts([cluster_status(state, recovering_limit=recovering_limit) for state in states], opts)
        if opts.as_json:
            for status in statuses:
                print_json(to_json(status))
            return opts.watch
        tables = Group(*map(to_table, statuses))
        if opts.watch:
            console.clear()
        console.print(tables)
        return opts.watch

    try:
        query(opts, print_states)
    except KeyboardInterrupt:
        raise typer.Exit(0 if opts.watch else INTERRUPTED) from None


def with_job_alerts(statuses: "Sequence[ClusterStatus]", opts: LookBackOptions) -> "Sequence[ClusterStatus]":
    """Adds the alerts of the job, where its database can be read; not to a past state."""
    if (opts.config is None and opts.journal is None) or opts.at is not None:
        return statuses
    from connectors.delivery.ledger import firing_alerts
    from connectors.process.wall_clock import wall_ms
    from connectors.store.acknowledgements import AcknowledgementStore
    from streaming.cli.recorded_job import RecordedJob
    from streaming.status.cluster_status import with_job_alerts as with_alerts
    from streaming.status.job_alerts import JobAlerts

    try:
        job, now_ms = RecordedJob(RecordedOptions(config=opts.config, journal=opts.journal)), wall_ms()
        database = job.database()
        if not database.exists:
            return statuses
        alerts = JobAlerts(
            firing=firing_alerts(database),
            acknowledgements=AcknowledgementStore(database).read(),
            silences=job.silences(now_ms),
        )
    except (UsageError, StoreError) as problem:
        print_progress(f"the job's alerts cannot be read: {problem}")
        return statuses
    return [with_alerts(status, alerts, now_ms) for status in statuses]


def job_silences(opts: ClusterOptions) -> "Sequence[Silence]":
    """Returns the silences of the configured job; none where its database cannot be read."""
    if opts.config is None:
        return ()
    from connectors.process.wall_clock import wall_ms
    from streaming.cli.recorded_job import RecordedJob

    try:
        return RecordedJob(RecordedOptions(config=opts.config)).silences(wall_ms())
    except (UsageError, StoreError) as problem:
        print_progress(f"the job's silences cannot be read: {problem}")
        return ()


def read_disks(opts: LookBackOptions) -> "Sequence[LogDirContents]":
    """Returns what the log directories of `--log-dir` hold; nothing without one."""
    if not opts.log_dir:
        return []
    if opts.live or opts.journal is not None:
        raise UsageError("--log-dir reads disks: do not combine it with --cluster, --config or --journal")
    if opts.witness:
        raise UsageError("--log-dir reads disks: do not combine it with --witness")
    from streaming.query.from_log_dir import replay_log_dir

    return [replay_log_dir(folder, opts.point_in_time) for folder in opts.log_dir]


def _recorded_states(opts: LookBackOptions) -> "Sequence[ClusterState] | None":
    """Returns the state in log directories or a recording; None if clusters must be queried."""
    upto = opts.point_in_time
    if upto is not None and (opts.cluster or not (opts.journal or opts.log_dir or opts.config)):
        raise UsageError("--at shows a past state: use it with --config FILE, --journal DIR or --log-dir DIR only")
    disks = read_disks(opts)
    if not disks and upto is None and (opts.journal is None or opts.live):
        return None
    from streaming.cli.recorded_job import RecordedJob
    from streaming.query.recording import recorded_state, replay_recording

    if isinstance(opts, StatusOptions) and opts.watch:
        raise UsageError("--watch needs a cluster to query: give --cluster NAME=HOST:PORT,… or --config FILE")
    log_dir = opts.log_dir[0] if opts.log_dir else None
    given = RecordedOptions(config=opts.config, journal=opts.journal, log_dir=log_dir, setting=opts.setting)
    job = RecordedJob(given, opts.only or ())
    if disks:
        thresholds = job.settings("").thresholds
        return [recorded_state(disk, thresholds) for disk in disks]
    recorded = job.recording()
    only, names = config_from_options.patterns(opts.only), set[str]()

    def settings_of(name: str) -> "ClusterSettings | None":
        names.add(name)
        return job.settings(name) if selects(only, name) else None

    replayed = replay_recording(recorded, settings_of, upto=upto)
    if not names:
        raise UsageError(f"{recorded.place} holds no rows of that time")
    config_from_options.check_only(only, sorted(names))
    return [journal.state() for journal in replayed.values()]
