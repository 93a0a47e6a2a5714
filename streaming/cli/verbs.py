"""The verbs of `kraftwatch` by name: help, completion and another verb do not import the module of a verb."""

from importlib import import_module
from typing import Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

from connectors.process.extras import Extra, require

_MARKUP: Literal["rich"] = "rich"
_TRY, _ON_CALL = "Try it on this machine", "On-call commands"
_MONITOR, _RECORDED = "Monitor continuously", "Recorded data"
_VERBS = (
    (_TRY, "demo", "lab:demo", "Inject four faults into a real Kafka quorum while the streaming job monitors it."),
    (_TRY, "lab", "lab:app", "Start and stop a real Kafka quorum on this machine, for experiments."),
    (_ON_CALL, "status", "status:status", "Show the quorum: leader, voters, recorded endpoints, and what is wrong."),
    (_ON_CALL, "check", "status:check", "Query once and evaluate all rules; for scripts, probes and cron."),
    (_ON_CALL, "ack", "acknowledge:ack", "Acknowledge firing alerts: you work on them, and people are not reminded."),
    (_ON_CALL, "unack", "acknowledge:unack", "End the acknowledgement of firing alerts: people are reminded again."),
    (
        _ON_CALL,
        "safe-to-restart",
        "safe_to_restart:safe_to_restart",
        "Check whether a node may be restarted now; print the reasons if not.",
    ),
    (
        _ON_CALL,
        "what-if",
        "what_if:what_if",
        "Predict whether the quorum has a leader after a change of its controllers.",
    ),
    (
        _ON_CALL,
        "witness",
        "witness:witness",
        "Dial the controllers as this host's node does, and say which it does not reach.",
    ),
    (
        _ON_CALL,
        "explain",
        "explain:explain",
        "Explain a rule: its meaning, what to do, what not to do, its thresholds.",
    ),
    (
        _ON_CALL,
        "rescue",
        "rescue:app",
        "Recover a quorum that cannot elect a leader: other voter endpoints, or a lost majority.",
    ),
    (_MONITOR, "run", "run:run", "Monitor clusters continuously and send alerts."),
    (_MONITOR, "relay", "run:relay", "Gather beside the controllers and write all observations to a topic."),
    (_MONITOR, "doctor", "doctor:doctor", "Check everything that the job needs, and print how to fix what fails."),
    (_MONITOR, "config", "config:app", "Check a configuration file, or print an example or the schema."),
    (_MONITOR, "silence", "silence:app", "Silence alerts for a time, such as during a planned change."),
    (_MONITOR, "repair", "repair:repair", "Repair the damaged databases of a stopped job."),
    (_RECORDED, "report", "report:report", "Write an incident as one HTML file: timeline, alerts, state at the end."),
    (
        _RECORDED,
        "timeline",
        "replay:timeline",
        "Print what happened, in order: elections, voter changes, recoveries, alerts.",
    ),
    (
        _RECORDED,
        "replay",
        "replay:replay",
        "Back-test: print the alerts that the job would have sent for recorded observations.",
    ),
    (_RECORDED, "bundle", "report:bundle", "Pack journal, alerts, status, configuration and versions into one file."),
)
"""Panel of the help, name, where it is in this package, first sentence of its help text."""
_LOG, _JOB = "Of a cluster or its metadata log", "Of what a job recorded"
_DATA_VERBS = (
    (
        _LOG,
        "replication",
        "status:replication",
        "Show every replica of the metadata log: its lag and whether it is fetching.",
    ),
    (_LOG, "partitions", "status:partitions", "Show partitions recovering from an unclean election, longest first."),
    (_LOG, "decode", "decode:decode", "Print every record of a segment or snapshot of the metadata log."),
    (_JOB, "audit", "audit:audit", "Check all recorded observations and alerts against the data contracts."),
    (_JOB, "export", "export:export", "Append what is new in a job's tables to parquet files."),
    (_JOB, "quarantine", "audit:app", "Show recorded data that could not be decoded, and decode it again."),
)
"""The same, of the verbs under `kraftwatch data`."""
_EXTRAS = {"run": Extra.JOB, "export": Extra.JOB, "audit": Extra.AUDIT}
"""The verbs that need more than the base package. Their help does not."""


class Verb(TyperCommand):
    """One verb. Its module is imported when the verb is called."""

    def __init__(self, name: str, place: str, *, panel: str, sentence: str) -> None:
        super().__init__(name, help=sentence, rich_help_panel=panel, rich_markup_mode=_MARKUP)
        self._name, self._place = name, place

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Returns a context of the command, which typer then invokes. Raises UsageError if its extra is missing."""
        context = self.load().make_context(info_name, args, parent=parent, **extra)
        # Completion parses what is not complete, and runs nothing.
        if self._name in _EXTRAS and not context.resilient_parsing:
            require(_EXTRAS[self._name], context.command_path)
        return context

    def load(self) -> TyperCommand | TyperGroup:
        """Returns the command with its options."""
        module, _, attribute = self._place.partition(":")
        found = getattr(import_module(f"streaming.cli.{module}"), attribute)
        holder = typer.Typer(rich_markup_mode=_MARKUP, add_completion=False, callback=lambda: None)
        if isinstance(found, typer.Typer):
            holder.add_typer(found, name=self._name)
        else:
            holder.command(self._name)(found)
        command: TyperCommand | TyperGroup = typer.main.get_command(holder).commands[self._name]  # type: ignore[attr-defined]
        return command


class Verbs(TyperGroup):
    """The group of all verbs, and `data`, the group of those that show data in detail."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for panel, name, place, sentence in _VERBS:
            self.add_command(Verb(name, place, panel=panel, sentence=sentence))
        self._data = TyperGroup(
            name="data",
            help="Show metadata and recorded data in detail: replicas, partitions, records, contracts, tables.",
            rich_help_panel=_RECORDED,
            rich_markup_mode=_MARKUP,
            no_args_is_help=True,
        )
        for panel, name, place, sentence in _DATA_VERBS:
            self._data.add_command(Verb(name, place, panel=panel, sentence=sentence))
        self.add_command(self._data)
