"""`kraftwatch silence`: adds, lists and ends silences."""

import secrets
import shlex
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.errors import UsageError
from connectors.process.wall_clock import wall_ms
from connectors.sinks.alert_json import silence_to_json
from rules.evaluate import ALL_RULES
from rules.finding import Severity
from rules.formatting import iso, ms_text
from rules.model.identifiers import Millis
from rules.model.job_state import JOB_CLUSTER_ID
from rules.notifications.route import Silence, matches_any_name
from streaming.cli.explain import rule_ids
from streaming.cli.options import (
    AsJson,
    CheckpointFolder,
    ConfigFile,
    Duration,
    EndTime,
    JobPlace,
    comment_text,
    database_to_write,
    end_time,
    job_place,
    person,
)
from streaming.cli.output import print_json, print_message, print_table

if TYPE_CHECKING:
    from connectors.store.collection import SilenceStore

app = typer.Typer(
    no_args_is_help=True,
    help="""Silence alerts for a time, such as during a planned change.

Sinks for people (Slack, PagerDuty, …) are not notified of silenced alerts;
record sinks (console, jsonl, kafka) still get them. Every silence ends: the
alerts that are still firing are then sent; those that have resolved are not.
The job applies a change within a second.
""",
)

_MATCHED = ("cluster", "rule", "subject", "severity")


@app.command("add")
def add(
    for_: Duration = None,
    until: EndTime = None,
    comment: Annotated[str, typer.Option(help="The reason, for the next person on call. Required.")] = "",
    cluster: Annotated[
        list[str] | None, typer.Option(help="The cluster's name, or a pattern with * and ?. May be repeated.")
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(help="The rule's id, or a pattern. May be repeated.", autocompletion=rule_ids),
    ] = None,
    subject: Annotated[
        list[str] | None, typer.Option(help="The alert's subject, or a pattern. May be repeated.")
    ] = None,
    severity: Annotated[
        list[str] | None, typer.Option(help="critical, warning, info, or a pattern. May be repeated.")
    ] = None,
    author: Annotated[str | None, typer.Option(help="The author; default: the current user.")] = None,
    checkpoint: CheckpointFolder = None,
    config: ConfigFile = None,
) -> None:
    """Silence the alerts that match one pattern of each given option.

    A rule or a cluster that does not exist is refused. Prints the silence's id.

    Exit codes: 0, 1 the job's database cannot be used, 2 invalid usage.

      kraftwatch silence add --rule "voter-*" --for 2h --comment "CHG-1234"
    """
    now_ms = wall_ms()
    ends_at_ms = end_time(
        for_, until, now_ms, "a silence", advice=": to silence a rule for longer, change its thresholds"
    )
    reason = comment_text(comment)
    if not reason:
        raise UsageError("--comment is missing: give the reason, for the next person on call")
    patterns = [cluster or ["*"], rule or ["*"], subject or ["*"], severity or ["*"]]
    if all(any(map(matches_any_name, pattern)) for pattern in patterns):
        raise UsageError("this would silence every alert: give --cluster, --rule, --subject or --severity")
    _check_patterns("rule", rule, ALL_RULES)
    _check_patterns("severity", severity, list(Severity))
    job = job_place(checkpoint, config)
    _check_clusters(cluster or (), job)
    silence = Silence(
        id=secrets.token_hex(4),
        starts_at_ms=now_ms,
        ends_at_ms=ends_at_ms,
        author=person("--author", author),
        comment=reason,
    )
    _silences(job).add(*_of_each_pattern(silence, patterns), now_ms=now_ms)
    sys.stdout.write(silence.id + "\n")
    length = ms_text(ends_at_ms - now_ms)
    place = "" if checkpoint is None else f" --checkpoint {shlex.quote(checkpoint)}"
    place += "" if config is None else f" --config {shlex.quote(str(config))}"
    print_message(
        f"silenced until {iso(ends_at_ms)} ({length}); end it earlier with `kraftwatch silence end {silence.id}{place}`"
    )


@app.command("list")
def list_(
    checkpoint: CheckpointFolder = None,
    config: ConfigFile = None,
    *,
    ended: Annotated[bool, typer.Option("--ended", help="Also list silences that ended in the last 30 days.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the active silences and what each of them matches.

    With --config, also lists the active maintenance windows.

      kraftwatch silence list --checkpoint DIR
    """
    now_ms = wall_ms()
    job = job_place(checkpoint, config)
    silences = [silence for silence in _silences(job, read_only=True).read() if ended or silence.ends_at_ms > now_ms]
    if job.config is not None:
        from streaming.config.maintenance import in_force

        silences += in_force(job.config.maintenance, now_ms)
    if as_json:
        for one in silences:
            print_json(silence_to_json(one, now_ms))
        return
    if not silences:
        print_message("no silence is active")
        return
    rows = []
    for together in _by_id(silences):
        one = together[0]
        left = ms_text(one.ends_at_ms - now_ms) + " left" if one.ends_at_ms > now_ms else "ended"
        until = f"{iso(one.ends_at_ms)[:16]}Z ({left})"
        rows.append((one.id, until, _matchers(together), one.author, one.comment))
    print_table(("id", "until"), ("matches", "author", "reason"), rows)


@app.command("end")
def end(
    silence: Annotated[str, typer.Argument(help="The silence's id, from `kraftwatch silence list`.", metavar="ID")],
    checkpoint: CheckpointFolder = None,
    config: ConfigFile = None,
) -> None:
    """End a silence now; alerts that are still firing are then sent.

    kraftwatch silence end 1f0c9b2e --checkpoint DIR
    """
    ended = _silences(job_place(checkpoint, config)).end(silence, now_ms=wall_ms())
    print_message(f"silence ended: {_matchers(ended)}")


def _of_each_pattern(silence: Silence, patterns: Iterable[Sequence[str]]) -> Iterable[Silence]:
    """Yields the silence for each combination of a cluster, a rule, a subject and a severity; all have its id."""
    for cluster, rule, subject, severity in product(*map(dict.fromkeys, patterns)):
        yield replace(silence, cluster=cluster, rule=rule, subject=subject, severity=severity)


def _check_patterns(option: str, patterns: Sequence[str] | None, known: Collection[str]) -> None:
    """Rejects a pattern that matches no known value: the silence would have no effect."""
    from connectors.settings.sections import unmatched

    for pattern in patterns or ():
        if problem := unmatched(pattern, known, option):
            raise UsageError(f"--{option}: {problem}")


def _check_clusters(patterns: Sequence[str], job: JobPlace) -> None:
    """Rejects a pattern that matches no cluster of the checkpoint or the configuration, nor alerts about the job."""
    from streaming.pipeline.checkpoint import Checkpoint

    known = {JOB_CLUSTER_ID}
    if isinstance(job.store, Path):
        known |= {*Checkpoint(folder=job.store).cluster_ids()}
    if job.config is not None:
        known |= {section.name for section in job.config.clusters}
    _check_patterns("cluster", patterns, known)


def _silences(job: JobPlace, *, read_only: bool = False) -> "SilenceStore":
    from connectors.store.collection import SilenceStore
    from connectors.store.tables import job_database

    return SilenceStore(job_database(job.store, read_only=True) if read_only else database_to_write(job.store))


def _by_id(silences: Iterable[Silence]) -> Iterable[Sequence[Silence]]:
    """Returns the silences of each id and time: one `silence add` with repeated options makes several."""
    found: dict[tuple[str, Millis], list[Silence]] = {}
    for silence in silences:
        found.setdefault((silence.id, silence.ends_at_ms), []).append(silence)
    return found.values()


def _matchers(together: Sequence[Silence]) -> str:
    """Returns what silences match that differ in their patterns only."""
    texts = []
    for name in _MATCHED:
        patterns = dict.fromkeys(getattr(silence, name) for silence in together)
        if [*patterns] != ["*"]:
            texts.append(f"{name} {' or '.join(patterns)}")
    return ", ".join(texts) or "everything"
