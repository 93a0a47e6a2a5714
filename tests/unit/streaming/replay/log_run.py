"""Runs the commands of a log scenario: records of a bare log, and the observations that a gatherer makes of it.

Records are appended as in `tests/scripts` (`log_commands`). Each observation comes a second after the one before, or
later: `read after 10s`. Its output is what is known now and was not before, and `- SUBJECT` for what is known no more.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from connectors.observations.log_event import LogAdvanced, LogEvent, SnapshotEnded
from connectors.observations.observation import Event
from rules.model.identifiers import Epoch, NodeId, Offset
from rules.model.monitoring import FailedObservation, LeaderLog, LeaderView, ObservationSource, Probe, Reason, Snapshot
from rules.model.replica import Replica
from streaming.replay.machine import Machine
from tests.commands import Commands, Milliseconds, Words, endpoint, milliseconds
from tests.description.describe import NOW, facts
from tests.scripts.log_commands import append
from tests.scripts.log_script import (
    START,
    LogScript,
    again,
    failed,
    machine,
    poll,
    probed,
    replica,
    view,
)

command: Commands["LogRun"] = Commands(
    "a log scenario: records of a bare log, and what a gatherer observes, its clauses separated by commas"
)


class LogRun:
    """A log, the content of its next snapshot, and two replays of it: one is stored and restored after each step."""

    def __init__(self) -> None:
        self.log, self.content = LogScript(), LogScript()
        self.newest: tuple[Event, ...] = ()
        """The events of the newest observation."""
        self.replay, self._restored = machine(), machine()
        self._known = known(self.replay)

    def run(self, line: str) -> Iterator[str]:
        """Runs one command and returns its output."""
        words = Words(line)
        after = words.option("after")
        events: list[Event] | None = command.run(self, words)
        if events is not None:
            yield from self._observe(events, after_ms=1_000 if after is None else milliseconds(after))

    def _observe(self, events: list[Event], *, after_ms: int) -> Iterator[str]:
        row = self.log.row(*events, after_ms=after_ms)
        self.newest = tuple(row.events)  # type: ignore[arg-type]
        for each in (self.replay, self._restored):
            each.apply(row.events, sequence=row.sequence, observed_at_ms=row.observed_at_ms)
        self._restored = again(self._restored.to_bytes())
        assert self._restored.quorum() == self.replay.quorum()
        before, self._known = self._known, known(self.replay)
        yield from (each for subject, each in self._known.items() if before.get(subject) != each)
        yield from (f"- {subject}" for subject in before if subject not in self._known)


def known(replay: Machine) -> Mapping[str, str]:
    """Returns what a replay knows of a quorum, but for the time, and how far it has read."""
    quorum = replay.quorum()
    found = facts(quorum, start_ms=START)
    del found[NOW]
    if replay.behind or replay.log.position != (-1 if quorum.last_offset is None else quorum.last_offset):
        end = "not to the end" if replay.behind else "to the end"
        found["replay"] = f"replay read up to {replay.log.position}, {end}"
    if replay.undecodable:
        found["undecodable"] = f"{replay.undecodable} undecodable"
    return found


@command("append")
def _append(run: LogRun, *record: str) -> None:
    """append unfence 101: a record."""
    append(run.log, " ".join(record))


@command("contain")
def _contain(run: LogRun, *record: str) -> None:
    """contain voters 1-a 2-b: the next snapshots have this record, as for `append`; contain nothing: they have none."""
    if record == ("nothing",):
        run.content = LogScript()
    else:
        append(run.content, " ".join(record))


@command("next")
def _next(run: LogRun, words: Words) -> None:
    """next 500 [epoch 3]: the offset of the next record, and its epoch."""
    epoch = words.number("epoch")
    run.log.epoch = run.log.epoch if epoch is None else epoch
    run.log.offset = int(words.word())


@command("then")
def _then(run: LogRun, lasts_ms: Milliseconds) -> None:
    """then 60s: time passes."""
    run.log.now_ms += lasts_ms


@command("read")
def _read(run: LogRun, words: Words) -> Iterator[Event]:
    """read [behind 3] [without-time]: a fetch of all new records; the high watermark is so many records further."""
    advanced = run.log.advanced(run.log.offset + (words.number("behind") or 0))
    events, run.log.events = run.log.events, []
    yield from events
    yield replace(advanced, newest_timestamp_ms=None) if words.flag("without-time") else advanced


@command("reread")
def _reread(run: LogRun, words: Words) -> Iterator[Event]:
    """reread 101: a fetch up to this offset that returns no batch."""
    last = int(words.word())
    yield LogAdvanced(
        last_offset=Offset(last),
        leader_epoch=Epoch(run.log.epoch),
        high_watermark=Offset(last + 1),
        newest_timestamp_ms=None,
    )


@command("snapshot")
def _snapshot(run: LogRun, words: Words) -> Iterator[LogEvent]:
    """snapshot [parts 1-2/3] [end 90] [epoch 5] [footer-epoch 7]: the records of `contain`, whole or some parts."""
    end, epoch, footer_epoch = words.number("end"), words.number("epoch"), words.number("footer-epoch")
    wanted, _, count = (words.option("parts") or "1/1").partition("/")
    first, _, last = wanted.partition("-")
    run.log.epoch = run.log.epoch if epoch is None else epoch
    chunks = run.log.snapshot_chunks(run.content.events, end_offset=end, chunks=int(count))
    for chunk in chunks[int(first) - 1 : int(last or first)]:
        for event in chunk:
            if isinstance(event, SnapshotEnded) and footer_epoch is not None:
                yield replace(event, epoch=Epoch(footer_epoch))
            else:
                yield event


@command("poll")
def _poll(_: LogRun, words: Words) -> Iterator[Event]:
    """poll [leader 1] [epoch 1] [high-watermark 18] [at c1:9093] [cluster-id x], ROW, ROW, node 9 at c9:9093.

    A row is `[observer] 2-b [end 20] [fetched 100ms] [caught-up 0.2s]`; each of the three may be `unknown`.
    """
    answer, *clauses = words.clauses()
    rows: dict[bool, list[Replica]] = {False: [], True: []}
    nodes = {}
    for clause in clauses:
        if (node := clause.option("node")) is not None:
            nodes[NodeId(int(node))] = tuple(endpoint(each) for each in (clause.option("at") or "").split(","))
            continue
        rows[clause.flag("observer")].append(_row(clause))
    polled = poll(
        *rows[False],
        leader=answer.number("leader") or 1,
        epoch=answer.number("epoch") or 1,
        hw=answer.number("high-watermark"),
        endpoint=answer.option("at") or "c1:9093",
        cluster_id=answer.option("cluster-id") or "cluster-id",
        observers=tuple(rows[True]),
    )
    yield replace(polled, nodes=nodes) if nodes else polled


def _row(words: Words) -> Replica:
    def value(name: str, default: int, read: Callable[[str], int]) -> int | None:
        given = words.option(name)
        return default if given is None else None if given == "unknown" else read(given)

    end, fetch = value("end", 100, int), value("fetched", 0, milliseconds)
    caught_up = value("caught-up", 0, milliseconds)
    return replica(words.word(), end, fetch, caught_up)


@command("fails")
def _fails(_: LogRun, words: Words) -> Iterator[FailedObservation]:
    """fails log refused at c1:9093, quorum timed-out at c1:9093: attempts that failed; without `at`: at no address."""
    for clause in words.clauses():
        where = clause.option("at") or ""
        source = ObservationSource(clause.word())
        yield failed(Reason(clause.word()), where, source)


@command("probe")
def _probe(_: LogRun, words: Words) -> Iterator[Probe]:
    """probe 1 10.0.0.1, 2 at c2:9193: endpoints that answer from an address, or whose name does not resolve."""
    for clause in words.clauses():
        where = clause.option("at")
        yield probed(int(clause.word()), *clause.rest(), where=None if where is None else endpoint(where))


@command("view")
def _view(_: LogRun, words: Words) -> Iterator[LeaderView]:
    """view 1 leader 1 [epoch 2] [snapshot 90], 2 leader none: what nodes report; the leader also its log."""
    for clause in words.clauses():
        leader, epoch, end = clause.option("leader"), clause.number("epoch") or 1, clause.number("snapshot")
        log = None
        if end is not None:
            snapshot = Snapshot(end_offset=Offset(end), epoch=Epoch(1), last_contained_timestamp_ms=None)
            log = LeaderLog(start_offset=Offset(0), snapshot=snapshot, tells_absence=True, begins_timestamp_ms=None)
        led_by = None if leader in (None, "none") else int(leader)
        yield view(int(clause.word()), leader=led_by, epoch=epoch, log=log)


@command("repeat")
def _repeat(run: LogRun) -> Iterator[Event]:
    """repeat: the newest observation is recorded again."""
    yield from run.newest


@command("nothing")
def _nothing(_: LogRun) -> Iterator[Event]:
    """nothing: an observation without an event."""
    yield from ()
