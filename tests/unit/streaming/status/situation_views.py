"""Situations in all views: commands of `tests.situation`, the names of views, `----`, and what each view shows of it.

A block of `views/NAME.txt` is one situation. Above the `----` are its commands, a healthy cluster without any, and:

- `recorded 90s`: it is the state that a journal holds since so long; `not-queried`: no node was asked.
- `only-configured`: nothing was ever observed of the cluster.
- `show table`, `show replication`, `show partitions`: what `status` and the verbs of `data` print; `show check`.
- `show json [FIELD ...]`: these fields of `status --json`, or most of them; `show job [FIELD ...]`: of a job's status.
- `show health`: in one word, with the exit code of `check`.
- `show metrics [NAME ...]`: these samples of the cluster in /metrics, or most of them.
- `show page`: health, headline, numbers and who reaches whom on the job's page; `show page untracked`: no job tracks
  what will fire.
- `show slack`: the message about the alerts that have fired, in Slack's blocks.
- `| lines PATTERN` behind it: only the lines in which the pattern is found.

A `.` is an empty line. A time is its distance to NOW.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from connectors.sinks.sink_config import MessageLinks
from connectors.sinks.slack.blocks import message
from rules.alert import Alert
from rules.evaluate import evaluate, thresholds_for
from rules.facts.quorum import Facts
from rules.lifecycle import TrackedConditions, advance
from rules.model.quorum import Quorum
from rules.notifications.notification import Notification, NotifyReason
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.machine import Machine
from streaming.status.build_status import cluster_status, job_cluster_status
from streaming.status.check_output import check_text
from streaming.status.cluster_status import ClusterState, status_json
from streaming.status.health import health
from streaming.status.status_store import ReceivedStatus
from streaming.web.cluster_view import ClusterView
from streaming.web.templating import render_cluster
from tests.commands import Words, milliseconds
from tests.scripts.script_text import commands_of
from tests.situation.case import alerts_of
from tests.situation.commands import situation
from tests.situation.situation import NOW
from tests.unit.streaming.metrics.exposition import MetricsFixture
from tests.unit.streaming.status.printed_status import printed_status
from tests.unit.streaming.status.statuses import job_status, state_of, values_text

VIEWS = Path(__file__).parent / "views"
_MODIFIERS = ("recorded", "not-queried", "only-configured")
_THRESHOLDS = thresholds_for({})
_LINKS = MessageLinks(docs_url="https://docs.example.com", page_url="https://watch.example.com/")
_NUMBER = re.compile(r"<dt>([^<]+)</dt><dd>(.*?)</dd>", re.DOTALL)
_SENTENCE = re.compile(r"<p class=\"gap\">(.*?)</p>", re.DOTALL)
_REACHES = re.compile(r"<tr id=\"m-\d+\">(.*?)</tr>", re.DOTALL)
_COLUMNS = {"findings": "severity rule subject hold_s", "unknown": "rule subject why"}
"""Of the lists whose other sentences the table shows."""
_ONLY_BY_NAME = ("unknown", "not_applicable")


@dataclass(frozen=True, kw_only=True)
class Situation:
    """One block."""

    commands: tuple[str, ...]
    modifiers: tuple[str, ...]
    views: tuple[str, ...]

    @property
    def quorum(self) -> Quorum:
        """The quorum that the commands describe."""
        if "only-configured" in self.modifiers:
            return Machine(ClusterSettings(name="prod", bootstrap=("c1:9093",))).quorum()
        return situation(*self.commands)

    def state(self) -> ClusterState:
        """Returns the quorum as a query or a journal gives it."""
        ages = [milliseconds(one.split()[1]) for one in self.modifiers if one.startswith("recorded")]
        return state_of(
            self.quorum, recorded_ago_ms=ages[0] if ages else None, live="not-queried" not in self.modifiers
        )

    def output(self) -> Iterator[str]:
        """Yields what is expected below the `----`."""
        for view in self.views:
            if len(self.views) > 1:
                yield f"[{view}]"
            words, _, pattern = view.partition(" | lines ")
            yield from (line.rstrip() or "." for line in self._lines(Words(words)) if re.search(pattern, line))

    def _lines(self, words: Words) -> Iterator[str]:
        match words.word():
            case "table":
                yield from printed_status(cluster_status(self.state()), width=160).splitlines()
            case "replication" | "partitions" as verb:
                yield from printed_status(cluster_status(self.state()), verb, width=160).splitlines()
            case "check":
                yield from check_text(self.state()).plain.splitlines()
            case "json":
                yield from _values(status_json(cluster_status(self.state())), words.rest())
            case "job":
                yield from _values(job_status(self.quorum), words.rest())
            case "health":
                found = health(cluster_status(self.state()))
                yield f"{found.value} {found.exit_code}"
            case "metrics":
                yield from _metrics(self.quorum, words.rest())
            case "page":
                yield from _page(self.quorum, tracked=not words.flag("untracked"))
            case "slack":
                yield from _slack(self.quorum)
            case unknown:
                raise AssertionError(f"no view is named {unknown}")
        words.end()


def situations_of(path: Path) -> Iterator[tuple[Sequence[str], Situation]]:
    """Yields the lines above the `----` of each block, and the situation that they describe."""
    for above, lines in commands_of(path.read_text(encoding="utf-8")):
        first = [(line.split()[0], line) for line in lines]
        yield (
            above,
            Situation(
                commands=tuple(line for word, line in first if word != "show" and word not in _MODIFIERS),
                modifiers=tuple(line for word, line in first if word in _MODIFIERS),
                views=tuple(line.removeprefix("show ") for word, line in first if word == "show"),
            ),
        )


def file_text(path: Path) -> str:
    """Returns the text of a file with the real output."""
    blocks = []
    for above, one in situations_of(path):
        output = ["----", *([*one.output()] or ["nothing"])] if one.views else []
        blocks.append("\n".join([*above, *output]))
    return "\n\n".join(blocks) + "\n"


SITUATIONS: Mapping[str, Quorum] = {
    path.stem: next(one.quorum for _, one in situations_of(path)) for path in sorted(VIEWS.glob("*.txt"))
}
"""The first situation of each file."""


def _values(fields: dict[str, Any], names: Sequence[str]) -> Iterator[str]:
    chosen = {name: value for name, value in fields.items() if name in (names or {*fields} - {*_ONLY_BY_NAME})}
    for name, columns in _COLUMNS.items():
        if name in chosen:
            chosen[name] = [{column: row[column] for column in columns.split()} for row in chosen[name]]
    yield from values_text(chosen).splitlines()


def _metrics(quorum: Quorum, names: Sequence[str]) -> Iterator[str]:
    with TemporaryDirectory() as folder:
        # A name of its own tells its samples from those of the job.
        samples = MetricsFixture(Path(folder), ["seen"]).batch(replace(quorum, cluster="seen")).samples()
    found = {
        (name, tuple(label for label in labels if label[0] != "cluster")): value
        for (name, labels), value in samples.items()
        if ("cluster", "seen") in labels
    }
    for (name, labels), value in found.items():
        if name in names if names else name not in _ONLY_BY_NAME:
            shown = f"NOW{value - NOW / 1_000:+.15g}" if value > NOW / 2_000 else f"{value:.15g}"
            yield " ".join([name, *(f"{label}={text}" for label, text in labels), shown])
    yield from (f"{name} is absent" for name in names if all(name != one for one, _ in found))


def page(quorum: Quorum, tracked: TrackedConditions | None = None, history: tuple[Alert, ...] = ()) -> ClusterView:
    """Returns the page of the job after the micro-batch with this quorum."""
    status = job_cluster_status(Facts(quorum), _THRESHOLDS, evaluate(Facts(quorum), _THRESHOLDS), tracked)
    received = ReceivedStatus(status=status, received_at_ms=quorum.now_ms)
    return ClusterView(name=quorum.cluster, now_ms=quorum.now_ms, received=received, history=history)


def tracked_conditions(quorum: Quorum) -> TrackedConditions:
    """Returns what a job tracks after its first evaluation, which is this one."""
    return advance(TrackedConditions(), evaluate(Facts(quorum), _THRESHOLDS), quorum, _THRESHOLDS)[0]


def _page(quorum: Quorum, *, tracked: bool) -> Iterator[str]:
    view = page(quorum, tracked_conditions(quorum) if tracked else None)
    yield f"{view.health.value}: {view.headline}"
    html = render_cluster(view, timeline_ms=(view.now_ms, view.now_ms))
    for name, value in _NUMBER.findall(html):
        yield f"{name}: {_plain(value)}"
    yield from map(_plain, _SENTENCE.findall(html))
    yield from map(_plain, _REACHES.findall(html))


def _plain(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def _slack(quorum: Quorum) -> Iterator[str]:
    alerts = tuple(sorted(alerts_of(quorum), key=lambda one: (-one.severity.rank, one.rule)))
    if not alerts:
        return
    notification = Notification(incident="1n", reason=NotifyReason.FIRING, alerts=alerts, new_transitions=alerts)
    document = message(notification, _LINKS)
    yield document["text"]
    for block in document["attachments"][0]["blocks"]:
        texts = block.get("elements") or block.get("fields") or [block["text"]]
        for line in "\n".join(one["text"] for one in texts).splitlines():
            yield f"  {line}"
