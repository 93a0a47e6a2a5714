"""What a job has recorded of the clusters that a command queries: the query continues it and knows what the job knows.

It is, in this order: what `--job` or `--journal` names; what a job records that runs on this machine, in the configured
checkpoint or in that of the service; what the job of the configuration file recorded before it ended.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from connectors.errors import JournalError, StoreError, UsageError
from rules.formatting import utc_text
from streaming.cli.job_page import JobPage, JobPageError
from streaming.cli.options import ClusterOptions, LookBackOptions, RecordedOptions
from streaming.cli.output import print_progress

if TYPE_CHECKING:
    from connectors.gather.node_directory import KnownEndpoints
    from streaming.config import ClustersConfig, Config
    from streaming.pipeline.checkpoint import Checkpoint
    from streaming.query.query_target import QueryTarget
    from streaming.query.recording import Recording, ReplayedJournal, SettingsOf
    from streaming.replay.cluster_settings import ClusterSettings

DEFAULT_CHECKPOINT: Final = Path("kraftwatch-checkpoint")
"""The default of `checkpoint` in the configuration."""
SERVICE_CHECKPOINT: Final = Path("/var/lib/kraftwatch/checkpoint")
"""Of the systemd unit and of the container image."""
_UNREADABLE: Final = "the recorded state cannot be read: {problem}"


@dataclass(frozen=True, kw_only=True)
class JobRecording:
    """What one job has recorded."""

    read: "Callable[[SettingsOf], Mapping[str, ReplayedJournal]]"
    """Returns the states of the clusters that have settings, by the names in these; settings are asked for by the job's
    names. UsageError, JournalError: none can be read."""
    place: str
    cluster_ids: Mapping[str, str] = field(default_factory=dict)
    """By the job's name of the cluster; none where they cannot be read."""
    addresses: Mapping[str, frozenset[tuple[str, int]]] = field(default_factory=dict)
    """Host and port of each endpoint that was recorded of a cluster, by the same name."""
    given: bool = False
    """Whether an option names it: then it is said if it has nothing of a cluster."""


def recorded_reader(
    opts: ClusterOptions, job: "Config | None"
) -> "Callable[[Sequence[QueryTarget]], Mapping[str, ReplayedJournal]]":
    """Returns a function that reads the recorded states of clusters, by the names of the targets.

    It takes the targets with the cluster ids that the nodes have reported. What cannot be read is said.

    Args:
        opts: name the clusters, and perhaps what is recorded of them.
        job: the configuration, if a file is given.

    Raises:
        UsageError: `--journal` names no journal, or `--job` no page.
    """
    given = _given(opts)

    def read(targets: "Sequence[QueryTarget]") -> "Mapping[str, ReplayedJournal]":
        try:
            source = given or _running(job) or (None if job is None else _ended(job, opts))
        except JournalError as problem:
            print_progress(_UNREADABLE.format(problem=problem))
            source = None
        return {} if source is None else _recorded_states(targets, source)

    return read


def query_targets(config: "ClustersConfig") -> "list[QueryTarget]":
    """Returns the clusters of a configuration to query."""
    from streaming.query.query_target import QueryTarget

    return [
        QueryTarget(cluster=section.cluster(), settings=partial(config.cluster_settings, section))
        for section in config.watched
    ]


def _recorded_states(targets: "Sequence[QueryTarget]", source: JobRecording) -> "Mapping[str, ReplayedJournal]":
    """Returns the recorded states of clusters, by the names of the targets; none of what cannot be read."""
    found = _names(targets, source)

    def settings_of(name: str) -> "ClusterSettings | None":
        target = found.get(name)
        if target is None:
            return None
        return replace(target.settings(), cluster_id=target.cluster.cluster_id or source.cluster_ids.get(name))

    try:
        states = source.read(settings_of) if found else {}
    except (UsageError, JournalError, JobPageError) as problem:
        # The brokers may be down as well, or the journal be another user's: what the query finds is printed.
        print_progress(_UNREADABLE.format(problem=problem))
        return {}
    for target in targets:
        name = target.cluster.name
        if name in states and not source.given:
            until = utc_text(states[name].newest_ms)
            print_progress(f"cluster {name}: known from the job in {source.place} until {until}")
        elif name not in states and source.given:
            print_progress(f"{source.place} has no rows of cluster {name}")
    return states


def job_page(opts: ClusterOptions) -> JobPage:
    """Returns the page that `--job` names. Raises UsageError if other options name what a job recorded."""
    look_back = opts if isinstance(opts, LookBackOptions) else None
    if opts.job is None or (look_back is not None and (look_back.journal or look_back.log_dir or look_back.at)):
        raise UsageError(
            "--job shows what a running job knows now: do not combine it with --journal, --log-dir or --at"
        )
    return JobPage(opts.job, opts.job_token_file, timeout_s=opts.timeout)


def _given(opts: ClusterOptions) -> JobRecording | None:
    """Returns what an option names; None without one."""
    journal = opts.journal if isinstance(opts, LookBackOptions) else None
    if opts.job is not None:
        return _of_page(job_page(opts))
    if journal is None:
        return None
    from streaming.pipeline.checkpoint import Checkpoint
    from streaming.query.recording import open_journal

    opened = open_journal(journal, print_progress)
    checkpoint = journal.parent if journal.name == "journal" else journal
    ids = {} if journal.is_file() else _cluster_ids(Checkpoint(folder=checkpoint))
    return JobRecording(read=partial(_states, opened), place=str(journal), cluster_ids=ids, given=True)


def _of_page(page: JobPage) -> JobRecording | None:
    try:
        ids = {name: cluster_id for name, cluster_id in page.cluster_ids().items() if cluster_id is not None}
    except JobPageError as problem:
        print_progress(_UNREADABLE.format(problem=problem))
        return None
    return JobRecording(read=page.states, place=page.url, cluster_ids=ids, given=True)


def _running(job: "Config | None") -> JobRecording | None:
    """Returns what a job records that runs on this machine, in the configured checkpoint or in that of the service."""
    own = DEFAULT_CHECKPOINT if job is None else job.folder
    for folder in filter(_may_be_locked, dict.fromkeys((own, SERVICE_CHECKPOINT))):
        from streaming.pipeline.checkpoint import Checkpoint
        from streaming.query.recording import has_journal

        checkpoint = Checkpoint(folder=folder, store=None if job is None else job.server)
        held = checkpoint.is_held()
        if held is None:
            print_progress(f"this user cannot read the checkpoint {folder}: run as the job's user to use what it knows")
        elif held and has_journal(folder):
            return _of_checkpoint(checkpoint)
    return None


def _may_be_locked(folder: Path) -> bool:
    """Returns whether a job has ever locked a folder, or this user may not know: without an import."""
    try:
        return (folder / "lock").exists()
    except PermissionError:
        return True


def _ended(job: "Config", opts: ClusterOptions) -> JobRecording | None:
    """Returns what the job of a configuration recorded here or, by relays, in a topic; None if it never ran."""
    from streaming.pipeline.checkpoint import Checkpoint
    from streaming.query.recording import has_journal

    if job.source == "kafka":
        from streaming.cli.recorded_job import RecordedJob

        recorded = RecordedJob(RecordedOptions(config=opts.config), [section.name for section in job.watched])
        return JobRecording(read=lambda settings_of: _states(recorded.recording(), settings_of), place=recorded.place)
    return _of_checkpoint(Checkpoint(folder=job.folder, store=job.server)) if has_journal(job.folder) else None


def _of_checkpoint(checkpoint: "Checkpoint") -> JobRecording:
    from streaming.query.recording import open_journal

    recording = open_journal(checkpoint.folder, print_progress)
    return JobRecording(
        read=partial(_states, recording),
        place=str(checkpoint.folder),
        cluster_ids=_cluster_ids(checkpoint),
        addresses={name: _addresses(known) for name, known in recording.endpoints().items()},
    )


def _addresses(known: "KnownEndpoints") -> frozenset[tuple[str, int]]:
    listed = (*known.voters.values(), *known.registered.values(), *known.polled.values())
    return frozenset((endpoint.host, endpoint.port) for endpoints in listed for endpoint in endpoints)


def _states(recording: "Recording", settings_of: "SettingsOf") -> "Mapping[str, ReplayedJournal]":
    """Returns the newest states in a recording, by the names in their settings."""
    from streaming.query.recording import JournalRecording, replay_recording

    recorded_names: dict[str, str] = {}

    def noting_name(name: str) -> "ClusterSettings | None":
        settings = settings_of(name)
        if settings is not None:
            recorded_names[settings.name] = name
        return settings

    states = replay_recording(recording, noting_name)
    noted = recording.endpoints() if isinstance(recording, JournalRecording) else {}
    for name, journal in states.items():
        journal.noted_endpoints = noted.get(recorded_names[name])
    return states


def _names(targets: "Sequence[QueryTarget]", source: JobRecording) -> "Mapping[str, QueryTarget]":
    """Returns each target by the job's name of its cluster.

    That is the cluster with its id; if no node reports one now, the cluster of its name, or else one that it shares an
    address with.
    """
    found: dict[str, QueryTarget] = {}
    for target in targets:
        name, own_id = target.cluster.name, target.cluster.cluster_id
        named = next((name for name, each in source.cluster_ids.items() if each == own_id), name)
        if own_id is None and name not in source.cluster_ids:
            named = next(
                (each for each, known in source.addresses.items() if known & {*target.cluster.bootstrap}), name
            )
        recorded_id = source.cluster_ids.get(named)
        if None in (own_id, recorded_id) or own_id == recorded_id:
            found[named] = target
        else:
            print_progress(
                f"cluster {name} has the id {own_id}, and the job in {source.place} knows it as {recorded_id}: what it "
                "recorded is of another cluster and is not used"
            )
    return found


def _cluster_ids(checkpoint: "Checkpoint") -> Mapping[str, str]:
    try:
        return checkpoint.cluster_ids()
    except (UsageError, StoreError):
        return {}
