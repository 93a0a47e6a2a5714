"""One hostile case: a seed decides what is mutated, the product handles it, and the result is checked."""

import resource
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from connectors.errors import UsageError
from connectors.metadata.redaction import redact
from connectors.observations.observation import Observation, ObservationKind, event_type
from streaming.replay.decoded_row import decode_observation
from tests.hostile.byte_mutation import mutated
from tests.hostile.damaged_checkpoint import DamagedCheckpoint
from tests.hostile.hostile_answer import HostileAnswers
from tests.hostile.hostile_log import hostile_log, hostile_snapshot
from tests.hostile.kafka_values import impossible_value
from tests.hostile.leaked_secret import leaked_secret
from tests.hostile.monitored_path import MonitoredPath
from tests.hostile.rescued_log import rescued

SECRET = "canary-5f2c9e"
STALL_S = 1.0
"""CPU seconds: a case that takes longer would hold up the other clusters."""
_RENDER_EVERY = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """What became of one case."""

    kind: str
    outcome: str
    """`applied`, `refused`, `read`, `rescued`."""
    cpu_s: float
    problem: str | None = None
    """Why the case fails the campaign; None if it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesResult:
    """Consecutive cases."""

    results: list[tuple[int, CaseResult]]
    """With their seeds."""
    grown_mb: int
    """How much the process has grown since its first cases."""


class HostileCases:
    """Runs cases in this process."""

    def __init__(self) -> None:
        self._path = MonitoredPath()
        self._folder = tempfile.TemporaryDirectory(prefix="kraftwatch-hostile-")
        self._checkpoint = DamagedCheckpoint(Path(self._folder.name))

    def close(self) -> None:
        self._path.close()
        self._folder.cleanup()

    def run(self, seed: int) -> CaseResult:
        """Runs one case. An exception of the product is the case's problem."""
        rng = Random(seed)
        kind, case = rng.choices([*self._kinds], [*self._kinds.values()])[0]
        began = time.process_time()
        try:
            outcome, problem = case(rng), None
        except Exception as error:  # noqa: BLE001 - whatever escapes would have ended the query or a process
            outcome, problem = "raised", f"{type(error).__name__}: {error}"
        cpu_s = time.process_time() - began
        if problem is None and cpu_s > STALL_S:
            problem = f"took {cpu_s:.1f} s of CPU"
        return CaseResult(kind=kind, outcome=outcome, cpu_s=cpu_s, problem=problem)

    @property
    def _kinds(self) -> Mapping[tuple[str, Callable[[Random], str]], int]:
        """How often each kind of case occurs, of a hundred."""
        return {
            ("log", self._log): 38,
            ("snapshot", self._snapshot): 9,
            ("answer", self._answer): 28,
            ("checkpoint", self._checkpoint.damage): 11,
            ("rescue", self._rescue): 7,
            ("state", self._state): 7,
        }

    def _log(self, rng: Random) -> str:
        first = self._path.position + 1
        payload = _redacted(hostile_log(rng, base_offset=first, secret=SECRET))
        known = {"leader_epoch": rng.choice((1, 9)), "high_watermark": first + rng.randrange(9)}
        offsets = {"base_offset": first, "last_offset": first + rng.randrange(5)}
        return self._monitored(self._path.row(ObservationKind.RECORDS, payload, **offsets, **known), rng)

    def _snapshot(self, rng: Random) -> str:
        payload = _redacted(hostile_snapshot(rng, secret=SECRET))
        known = {"base_offset": self._path.position + 10, "last_offset": 0, "leader_epoch": 9}
        return self._monitored(self._path.row(ObservationKind.SNAPSHOT, payload, **known), rng)

    def _answer(self, rng: Random) -> str:
        row = HostileAnswers(rng, self._path).observation()
        return "refused" if row is None else self._monitored(row, rng)

    def _rescue(self, rng: Random) -> str:
        return rescued(Path(self._folder.name) / "rescue", rng, SECRET)

    def _state(self, rng: Random) -> str:
        blob = mutated(self._path.healthy_blob, rng, times=rng.choice((1, 1, 2, 8)))
        first = self._path.position + 1
        payload = redact(hostile_log(rng, base_offset=first, secret=SECRET))
        row = self._path.row(ObservationKind.RECORDS, payload, base_offset=first)
        try:
            self._path.monitor(row, blob=blob, render=rng.randrange(_RENDER_EVERY) == 0)
        except UsageError:
            return "refused"
        return "applied"

    def _monitored(self, row: Observation, rng: Random) -> str:
        for event in decode_observation(row).events():
            impossible = impossible_value(event)
            assert impossible is None, f"accepted a value that Kafka cannot write: {event_type(event)}: {impossible}"
        result = self._path.monitor(row, render=rng.randrange(_RENDER_EVERY) == 0)
        leaked = SECRET.encode() in result.output and SECRET.encode() not in row.payload
        assert not leaked, "a credential is in an alert, the status or the page"
        assert not result.contained, f"the processor contained an exception: {result.contained[0]}"
        return "applied"


def _redacted(log: bytes) -> bytes:
    payload = redact(log)
    assert len(payload) == len(log), "redaction changed the length"
    leak = leaked_secret(payload, SECRET.encode())
    assert leak is None, f"a credential is in the journal: {leak}"
    return payload


@cache
def _shared() -> HostileCases:
    """What the cases of this process share."""
    return HostileCases()


@cache
def _first_size_mb() -> int:
    return _size_mb()


def _size_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def run_cases(first: int, count: int) -> CasesResult:
    """Runs the cases of consecutive seeds in this process."""
    results = [(seed, _shared().run(seed)) for seed in range(first, first + count)]
    return CasesResult(results=results, grown_mb=_size_mb() - _first_size_mb())
