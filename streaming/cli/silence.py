"""`kraftwatch silence`: what people need not be told for a while."""

import difflib
import getpass
import secrets
import sys
import time
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from connectors.delivery.silence_store import SilenceFile, silence_to_json
from connectors.errors import UsageError
from connectors.sinks.alert_json import iso
from connectors.sinks.evidence_format import visible
from rules.evaluate import RULES
from rules.finding import Severity
from rules.formatting import spelled
from rules.model.identifiers import Millis
from rules.notifications.silence import Silence
from streaming.cli import options
from streaming.cli.output import printed, say
from streaming.cli.time_argument import instant
from streaming.config import Config, load
from streaming.config.duration import parse_seconds
from streaming.config.maintenance_window import in_force
from streaming.pipeline.checkpoint import Checkpoint

app = typer.Typer(
    no_args_is_help=True,
    help="""Silence alerts for a while: a planned change, a fault that somebody works on.

People (Slack, PagerDuty, …) are not told what is silenced; records (jsonl, a
topic) are written all the same. A silence always ends. What still stands then
is told; what began and ended meanwhile is not. The job takes a change within
a second.
""",
)

CheckpointFolder = Annotated[
    Path | None, typer.Option("--checkpoint", help="The job's --checkpoint folder.", metavar="DIR")
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="The job's configuration, which names its checkpoint.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a silence, one a line, to stdout.")]

_LONGEST_MS = 366 * 86_400_000


@app.command("add")
def add(
    for_: Annotated[
        str | None, typer.Option("--for", help="How long, such as 30m, 2h or 3d.", metavar="DURATION")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Or until when, ISO 8601; UTC unless it says otherwise.", metavar="TIME")
    ] = None,
    comment: Annotated[str, typer.Option(help="Why: whoever is on call next will want to know.")] = "",
    cluster: Annotated[str, typer.Option(help="The cluster's name, or a pattern with * and ?.")] = "*",
    rule: Annotated[str, typer.Option(help="The rule's id, or a pattern.")] = "*",
    subject: Annotated[str, typer.Option(help="What it is about, as alerts name it, or a pattern.")] = "*",
    severity: Annotated[str, typer.Option(help="critical, warning, info, or a pattern.")] = "*",
    author: Annotated[str | None, typer.Option(help="Who silences, if not who is logged in.")] = None,
    checkpoint: CheckpointFolder = None,
    config: ConfigFile = None,
) -> None:
    """Silence what matches all patterns, for a while.

    Prints the silence's id. Exit codes: 0, or 2 for something that cannot be.

      kraftwatch silence add --rule "voter-*" --for 2h --comment "CHG-1234"
    """
    now_ms = _now()
    ends_at_ms = _end(for_, until, now_ms)
    if not comment.strip():
        raise UsageError("--comment is missing: say why, whoever is on call next will want to know")
    if {cluster, rule, subject, severity} == {"*"}:
        raise UsageError("a silence of everything is a pager switched off: give --cluster, --rule or another pattern")
    _some("rule", rule, RULES)
    _some("severity", severity, list(Severity))
    silence = Silence(
        id=secrets.token_hex(4),
        cluster=cluster,
        rule=rule,
        subject=subject,
        severity=severity,
        starts_at_ms=now_ms,
        ends_at_ms=ends_at_ms,
        author=author or _logged_in(),
        comment=comment.strip(),
    )
    _file(checkpoint, config).add(silence, now_ms=now_ms)
    sys.stdout.write(silence.id + "\n")
    say(f"silent until {iso(ends_at_ms)}, {spelled(ends_at_ms - now_ms)} from now; kraftwatch silence end {silence.id}")


@app.command("list")
def list_(
    checkpoint: CheckpointFolder = None,
    config: ConfigFile = None,
    *,
    ended: Annotated[bool, typer.Option("--ended", help="Those of the last 30 days that ended as well.")] = False,
    as_json: AsJson = False,
) -> None:
    """The silences that have not ended, and what each of them silences.

    With --config those of its maintenance that hold now are among them.

      kraftwatch silence list --checkpoint DIR
    """
    now_ms = _now()
    silences = [one for one in _file(checkpoint, config).read() if ended or one.ends_at_ms > now_ms]
    if config is not None:
        silences += in_force(load(config).windows(), now_ms)
    if as_json:
        for one in silences:
            options.print_json(silence_to_json(one, now_ms))
        return
    if not silences:
        say("nothing is silenced")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("id", "until", "silences", "by", "why"):
        table.add_column(column, no_wrap=column in ("id", "until"))
    for one in silences:
        left = spelled(one.ends_at_ms - now_ms) + " left" if one.ends_at_ms > now_ms else "ended"
        table.add_row(
            one.id,
            f"{iso(one.ends_at_ms)[:16]}Z ({left})",
            *map(Text, map(visible, (_matched(one), one.author, one.comment))),
        )
    printed().print(table)


@app.command("end")
def end(
    silence: Annotated[str, typer.Argument(help="Its id, as `kraftwatch silence list` shows it.", metavar="ID")],
    checkpoint: CheckpointFolder = None,
    config: ConfigFile = None,
) -> None:
    """End a silence now: what still stands is told.

    kraftwatch silence end 1f0c9b2e --checkpoint DIR
    """
    ended = _file(checkpoint, config).end(silence, now_ms=_now())
    say(f"ended: {_matched(ended)}")


def _some(option: str, pattern: str, known: Collection[str]) -> None:
    """A pattern that matches nothing silences nothing: whoever relies on it would be woken.

    Raises:
        UsageError: none of the known words matches.
    """
    if not any(fnmatchcase(word, pattern) for word in known):
        near = difflib.get_close_matches(pattern.lower(), known, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"
        raise UsageError(f"--{option} {pattern}: matches no {option}; {hint}")


def _file(checkpoint: Path | None, config: Path | None) -> SilenceFile:
    if checkpoint is not None and config is not None:
        raise UsageError("give --checkpoint or --config, not both")
    default: Path = Config.model_fields["checkpoint"].default
    folder = checkpoint or (default if config is None else load(config).checkpoint)
    if not folder.is_dir():
        raise UsageError(f"--checkpoint {folder}: no such folder; name the one that `kraftwatch run` keeps")
    return SilenceFile(Checkpoint(folder=folder).silences)


def _end(for_: str | None, until: str | None, now_ms: Millis) -> Millis:
    if (for_ is None) == (until is None):
        raise UsageError("give --for DURATION or --until TIME: a silence always ends")
    ends_at_ms = _after(for_, now_ms) if for_ is not None else _at(until or "")
    if ends_at_ms <= now_ms:
        raise UsageError(f"--until {until}: that is over already")
    if ends_at_ms - now_ms > _LONGEST_MS:
        raise UsageError("a silence of more than a year is a rule switched off: change its thresholds with --set")
    return ends_at_ms


def _after(duration: str, now_ms: Millis) -> Millis:
    try:
        seconds = parse_seconds(duration)
    except ValueError as problem:
        raise UsageError(f"--for: {problem}") from None
    if not seconds:
        raise UsageError(f"--for: invalid value '{duration}': expected more than 0 seconds")
    return Millis(now_ms + round(seconds * 1_000))


def _at(text: str) -> Millis:
    try:
        return instant(text)
    except ValueError:
        raise UsageError(f"--until '{text}' is no time: write 2026-11-20T08:15:00Z") from None


def _matched(one: Silence) -> str:
    said = {"cluster": one.cluster, "rule": one.rule, "subject": one.subject, "severity": one.severity}
    return ", ".join(f"{name} {pattern}" for name, pattern in said.items() if pattern != "*") or "everything"


def _logged_in() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise UsageError("who silences cannot be told: give --author") from None


def _now() -> Millis:
    return Millis(round(time.time() * 1000))
