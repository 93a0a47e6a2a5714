"""The options of the verbs that read clusters: clusters, names, thresholds.

The fields of `ConfigOptions` and its subclasses are the options; `with_options` adds them to a
verb. The configuration is imported when it is needed: pydantic takes 0.3 s, and help and completion must be fast.
"""

import os
import pwd
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from connectors.errors import UsageError, os_errors
from connectors.observations.point_in_time import AtOffset, AtTime, PointInTime, parse_time
from rules.formatting import visible
from rules.model.identifiers import Millis, Offset

if TYPE_CHECKING:
    from connectors.store.database import Database
    from connectors.store.store_place import StorePlace
    from streaming.config import Config

TIMEOUT_S = 10.0


def _seconds(most: str) -> Callable[[str | float], float]:
    """Returns the parser of a duration from one second to `most`."""

    def parse(value: str | float) -> float:
        if isinstance(value, float):
            return value
        from connectors.settings.sections import parse_seconds

        seconds = parse_seconds(value)
        if not 1 <= seconds <= parse_seconds(most):
            raise ValueError(f"invalid value '{value}': expected 1s to {most}")
        return seconds

    return parse


ConfigFile: TypeAlias = Annotated[
    Path | None, typer.Option("--config", "-c", help="The configuration file (YAML): clusters, sinks, thresholds.")
]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="A rule's threshold, such as no-leader.hold=10s. May be repeated.", metavar="RULE.NAME=VALUE"
    ),
]
Only: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="Only these of the given clusters: names, or patterns with * and ?, separated by commas. May be repeated.",
        metavar="NAME[,NAME]",
    ),
]
CheckpointFolder: TypeAlias = Annotated[
    str | None,
    typer.Option(help="The job's --checkpoint folder or work_dir; default: kraftwatch-checkpoint.", metavar="DIR"),
]
StepTimeout: TypeAlias = Annotated[
    float,
    typer.Option(
        "--timeout",
        parser=_seconds("10m"),
        help="How long each step of a dial may take, such as 2s; default: 3s.",
        metavar="DURATION",
        show_default=False,
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON to stdout, one object per line.")]
Duration: TypeAlias = Annotated[
    str | None, typer.Option("--for", help="The duration, such as 30m, 2h or 3d.", metavar="DURATION")
]
EndTime: TypeAlias = Annotated[
    str | None,
    typer.Option("--until", help="The end, instead of --for: ISO 8601, default time zone UTC.", metavar="TIME"),
]
FromTime: TypeAlias = Annotated[
    str | None, typer.Option("--from", help="The first time, ISO 8601; default: the beginning.", metavar="TIME")
]


@dataclass(frozen=True, kw_only=True)
class GatherOptions:
    """The options that name the clusters to gather from, together with a file or without one."""

    config: ConfigFile = None
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            help="A cluster's name and the listeners of its controllers: NAME=HOST:PORT,HOST:PORT,… May be repeated.",
            metavar="NAME=…",
        ),
    ] = None
    only: Only = None
    resolve: Annotated[
        list[str] | None,
        typer.Option(help="Resolve HOST to ADDR instead of asking DNS. May be repeated.", metavar="HOST=ADDR"),
    ] = None
    hosts_file: Annotated[
        Path | None, typer.Option(help="A file in the format of /etc/hosts, read at each probe; overrides DNS.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ConfigOptions(GatherOptions):
    """The options that make a configuration, together with a file or without one."""

    setting: Settings = None


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(ConfigOptions):
    """The options of every verb that reads clusters."""

    timeout: Annotated[
        float,
        typer.Option(
            parser=_seconds("10m"),
            help=f"How long to wait for answers, such as 30s or 2m; default: {TIMEOUT_S:g}s.",
            metavar="DURATION",
            show_default=False,
        ),
    ] = TIMEOUT_S
    as_json: AsJson = False
    job: Annotated[
        str | None,
        typer.Option(
            help="The page of a running job, such as https://kraftwatch.example.com:9847: the query continues what the "
            "job knows; without a cluster, that is shown. Default: the job that runs on this machine.",
            metavar="URL",
        ),
    ] = None
    job_token_file: Annotated[
        Path | None,
        typer.Option(help="A file with the token of that page: its listen_token_file.", metavar="FILE"),
    ] = None

    @property
    def live(self) -> bool:
        """True if clusters are queried, False if only recorded data is read."""
        return bool(self.cluster) or self.config is not None


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(ClusterOptions):
    """The options of verbs that answer what would happen to a quorum."""

    witness: Annotated[
        list[Path] | None,
        typer.Option(
            help="A file that `kraftwatch witness --json` wrote on a controller's host, at most 3 minutes ago: what is "
            "seen from there counts. May be repeated, for the host of each controller.",
            metavar="FILE",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RestartOptions(AnswerOptions):
    """The options of `safe-to-restart`."""

    wait: Annotated[
        float,
        typer.Option(
            parser=_seconds("24h"),
            help="Ask again every second until the node may be restarted, for so long at most, such as 10m.",
            metavar="DURATION",
            show_default=False,
        ),
    ] = 0.0
    after: Annotated[
        bool,
        typer.Option("--after", help="Answer instead whether the node, which was restarted, is back."),
    ] = False
    order: Annotated[
        bool,
        typer.Option(
            "--order", help="Propose in which order the given nodes are restarted, and answer for the first one."
        ),
    ] = False

    despite: Annotated[
        str | None,
        typer.Option(
            help="Leave out one reason, by the name that the answer gives it: you know why it does not hold, or accept "
            "what it costs. What would cost the leader or records is never left out.",
            metavar="REASON",
        ),
    ] = None
    announce: Annotated[
        float,
        typer.Option(
            parser=_seconds("24h"),
            help="If the answer is yes, silence the node's alerts for so long in the database of the job: its restart "
            "is announced then, and no crash loop.",
            metavar="DURATION",
            show_default=False,
        ),
    ] = 0.0
    strict: Annotated[
        bool, typer.Option("--strict", help="A partition with one replica on this broker is a reason against it.")
    ] = False
    min_isr: Annotated[
        int | None,
        typer.Option(
            help="The min.insync.replicas in the brokers' server.properties, for topics of which the metadata log "
            "has none.",
            metavar="N",
            min=1,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LookBackOptions(AnswerOptions):
    """The options of verbs that can read disks, or what a job recorded, instead of a cluster."""

    log_dir: Annotated[
        list[Path] | None,
        typer.Option(
            help="Read a controller's metadata.log.dir (or the __cluster_metadata-0 in it) instead of a cluster. Kafka "
            "may be running or stopped; nothing is written. One disk does not show which records are committed. May be "
            "repeated: what-if needs those of all controllers that there are.",
            metavar="DIR",
        ),
    ] = None
    at: Annotated[
        str | None,
        typer.Option(
            help="With --journal or --log-dir only: show a past state. A number is an OFFSET of the metadata log: the "
            "state after that record. Otherwise a TIME in ISO 8601 (default time zone: UTC), such as "
            "2026-11-20T08:15:00Z: the state with all observations (for a log directory: all records) until then.",
            metavar="OFFSET|TIME",
        ),
    ] = None
    journal: Annotated[
        Path | None,
        typer.Option(
            help="The --checkpoint folder of `kraftwatch run`. The query continues its recorded state; without a "
            "cluster, that is shown. Default: of the job that runs on this machine, else of the job of --config.",
            metavar="DIR",
        ),
    ] = None

    @property
    def point_in_time(self) -> PointInTime | None:
        """The value of `--at`."""
        if self.at is None:
            return None
        if re.fullmatch(r"[0-9]+", self.at):
            return AtOffset(offset=Offset(int(self.at)))
        try:
            return AtTime(at_ms=parse_time(self.at))
        except ValueError:
            raise UsageError(f"--at {self.at}: expected an OFFSET or a TIME such as 2026-11-20T08:15:00Z") from None


@dataclass(frozen=True, kw_only=True)
class StatusOptions(LookBackOptions):
    """The options of `status`, `replication` and `partitions`."""

    watch: Annotated[bool, typer.Option("--watch", help="Refresh every second until ^C.")] = False


@dataclass(frozen=True, kw_only=True)
class RecordedOptions:
    """The options of verbs that evaluate what was recorded."""

    journal: Annotated[
        Path | None,
        typer.Option(
            help="The --checkpoint folder of `kraftwatch run`, or the journal in it; default: what the job of --config "
            "recorded, with `source: kafka` in the relays' topic.",
            metavar="DIR",
        ),
    ] = None
    log_dir: Annotated[
        Path | None,
        typer.Option(help="A controller's metadata.log.dir: what its log alone shows.", metavar="DIR"),
    ] = None
    from_: FromTime = None
    to: Annotated[str | None, typer.Option(help="The last time, ISO 8601; default: the end.", metavar="TIME")] = None
    config: ConfigFile = None
    setting: Settings = None
    as_json: AsJson = False

    def __post_init__(self) -> None:
        """Refuses two places, or none."""
        places = [self.journal, self.log_dir].count(None)
        if places == 0 or (places == 2 and self.config is None):
            raise UsageError("give one place: --journal DIR, --log-dir DIR, or --config FILE of a job alone")


def writable_folder(option: str, folder: Path) -> Path:
    """Returns the folder that an option names, and creates it. Raises UsageError if it cannot be written."""
    with os_errors(f"{option} {folder}", "; give a writable folder"):
        folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{option} {folder}: permission denied; give a writable folder")
    return folder


def existing_checkpoint(place: str | None) -> Path:
    """Returns the checkpoint folder; None stands for the default one.

    Raises:
        UsageError: it does not exist, or only Spark uses it.
    """
    from connectors.settings.sections import uri_scheme
    from streaming.config import Config, checkpoint_place

    try:
        place = checkpoint_place(Config.model_fields["checkpoint"].default if place is None else place)
    except ValueError as problem:
        raise UsageError(f"--checkpoint: {problem}") from None
    if uri_scheme(place) is not None:
        raise UsageError(f"--checkpoint {place}: only Spark reads and writes there; give the job's work_dir instead")
    folder = Path(place)
    if not folder.is_dir():
        raise UsageError(f"--checkpoint {folder}: no such folder; give the --checkpoint folder of `kraftwatch run`")
    return folder


@dataclass(frozen=True, kw_only=True)
class JobPlace:
    """Where a job keeps its data."""

    folder: Path
    store: "StorePlace"
    """The server that the configuration names, else the folder."""
    config: "Config | None" = None


def job_place(checkpoint: str | None, config: Path | None) -> JobPlace:
    """Returns the place of the job of a configuration, else of a checkpoint folder; None stands for the default one."""
    if config is not None:
        from streaming.config import load

        if checkpoint is not None:
            raise UsageError("give --checkpoint or --config, not both")
        job = load(config)
        return JobPlace(folder=job.folder, store=job.server or existing_checkpoint(str(job.folder)), config=job)
    folder = existing_checkpoint(checkpoint)
    used = any((folder / name).exists() for name in ("kraftwatch.db", "cluster.json"))
    if not used and any(folder.iterdir()):
        # Such as the folder above the checkpoint, in which a silence would silence nothing.
        raise UsageError(
            f"--checkpoint {folder}: no kraftwatch.db is there; give the --checkpoint folder of `kraftwatch run`, or "
            "--config FILE"
        )
    return JobPlace(folder=folder, store=folder)


def with_options(kind: type[GatherOptions | RecordedOptions]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns a decorator for a verb whose first argument is a `kind`: its fields become command-line options.

    They follow the other parameters of the function, which stay as they are declared.
    """
    declared = signature(kind).parameters

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def verb(**values: Any) -> None:
            function(kind(**{name: values.pop(name) for name in declared}), **values)

        own = signature(function)
        _, *others = own.parameters.values()
        # Typer asks `inspect.signature` for the options, which asks for this attribute (PEP 362).
        verb.__signature__ = own.replace(parameters=[*others, *declared.values()])  # type: ignore[attr-defined]
        return verb

    return decorate


def parse_time_option(option: str, text: str | None) -> Millis | None:
    """Parses the value of an option that is a time; None if it was not given."""
    if text is None:
        return None
    try:
        return parse_time(text)
    except ValueError:
        raise UsageError(f"{option} {text}: expected a TIME such as 2026-11-20T08:15:00Z") from None


def end_time(for_: str | None, until: str | None, now_ms: Millis, what: str, *, advice: str = "") -> Millis:
    """Returns the end that `--for` or `--until` gives.

    `what` ends, for a sentence: `a silence`; `advice` follows the sentence about one that would last too long.
    """
    from connectors.settings.sections import parse_seconds
    from rules.notifications.route import LONGEST_MS

    if for_ is not None and until is not None:
        raise UsageError("give --for DURATION or --until TIME, not both")
    if for_ is None and until is None:
        raise UsageError(f"give --for DURATION or --until TIME: every {what.split()[-1]} must end")
    ends_at_ms = parse_time_option("--until", until)
    if ends_at_ms is None:
        try:
            seconds = parse_seconds(for_ or "")
        except ValueError as problem:
            raise UsageError(f"--for: {problem}") from None
        if not seconds:
            raise UsageError(f"--for: invalid value '{for_}': expected more than 0 seconds")
        ends_at_ms = Millis(now_ms + round(seconds * 1_000))
    if ends_at_ms <= now_ms:
        raise UsageError(f"--until {until}: this time is in the past")
    if ends_at_ms - now_ms > LONGEST_MS:
        raise UsageError(f"{what} may last at most 366 days{advice}")
    return ends_at_ms


def this_user() -> str:
    """Returns the user who runs the command, as the author of what it writes: with sudo, who called it."""
    named = next(filter(None, (os.environ.get(name) for name in ("SUDO_USER", "USER", "LOGNAME"))), None)
    if named is not None:
        return named
    try:
        return f"{pwd.getpwuid(os.getuid()).pw_name} on {gethostname()}"
    except KeyError:
        return f"uid {os.getuid()} on {gethostname()}"


def person(option: str, text: str | None) -> str:
    """Returns who a person is; without a name, this user. Raises UsageError as `comment_text`."""
    from rules.notifications.route import LONGEST_NAME

    return _stated(option, text or "", LONGEST_NAME) or this_user()


def comment_text(text: str) -> str:
    """Returns a comment. Raises UsageError if it is not UTF-8, which databases need, or too long."""
    from rules.notifications.route import LONGEST_COMMENT

    return _stated("--comment", text, LONGEST_COMMENT)


def _stated(option: str, text: str, longest: int) -> str:
    stated = text.strip()
    if len(stated) > longest:
        raise UsageError(f"{option}: {len(stated)} characters: give at most {longest}")
    try:
        stated.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{option}: '{visible(stated)}' is not UTF-8") from None
    return stated


def database_to_write(store: "StorePlace") -> "Database":
    """Returns a job's database.

    Raises:
        UsageError: this process runs as root, and the folder belongs to another user.
    """
    from connectors.store.tables import job_database

    if isinstance(store, Path):
        refuse_root_for_other_owner(store)
    return job_database(store)


def refuse_root_for_other_owner(checkpoint: Path) -> None:
    """Checks that what this process writes to an existing checkpoint folder can be read by its owner."""
    owner = checkpoint.stat().st_uid
    if os.geteuid() != 0 or owner == 0:
        return
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        name = f"#{owner}"
    raise UsageError(
        f"checkpoint {checkpoint} belongs to user {name}, who could not read what root writes: "
        f"run this command as that user, for example with `sudo -u {name}`"
    )
