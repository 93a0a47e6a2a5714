"""What is changed in the processes of a campaign's job: kill points, a log of all sink calls, addresses, the clock.

Product code is not edited: functions are wrapped when their modules are imported. Standard library only, because it
runs at the start of every Python process of the job.
"""

import functools
import importlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, TextIO

from tests.kill_campaign import delivery_log, kill_order
from tests.kill_campaign.import_hook import Change, ImportHook
from tests.kill_campaign.kill_point import KILL_POINTS, KillPoint, Moment

SETTINGS = "instrumentation.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the campaign sets in the processes of the job."""

    pagerduty_url: str
    slack_url: str
    ca_file: str
    """The authority of both services."""
    recording: str | None = None
    """The file whose rows the gatherer appends instead of observing clusters."""
    gatherer: str = "tests.kill_campaign.replay_gatherer"
    """The module whose `replay` does that."""
    clock_from_s: float = 0.0
    """Seconds since the Unix epoch from which the job's wall clock runs faster."""
    clock_factor: float = 1.0


def install(folder: Path) -> None:
    """Changes the modules that this process imports from now on."""
    settings = Settings(**json.loads((folder / SETTINGS).read_bytes()))
    changes: dict[str, list[Change]] = {}
    for point in KILL_POINTS:
        changes.setdefault(point.module, []).append(functools.partial(_add_kill_point, folder=folder, point=point))
    # Last, so that the log is written before a kill after the call.
    for module, change in _other_changes(folder, settings):
        changes.setdefault(module, []).insert(0, change)
    ImportHook(changes).install()


def wall_ms(settings: Settings, now_ms: int) -> int:
    """Returns the job's wall clock for the machine's one."""
    from_ms = round(settings.clock_from_s * 1000)
    return from_ms + round((now_ms - from_ms) * settings.clock_factor)


def resolve(module: ModuleType, path: str) -> tuple[Any, str, Callable[..., Any]]:
    """Returns the object that has the function, its attribute name, and the function.

    Raises:
        AttributeError: the product has no such function any more: change the kill point.
    """
    owner: Any = module
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    return owner, name, getattr(owner, name)


def _add_kill_point(module: ModuleType, *, folder: Path, point: KillPoint) -> None:
    owner, name, function = resolve(module, point.path)
    counter = _CallCounter(folder, point)
    setattr(owner, name, functools.wraps(function)(_call(function, counter)))


class _CallCounter:
    """Counts the calls of one point since the order that is in force was given."""

    def __init__(self, folder: Path, point: KillPoint) -> None:
        self.point = point
        self._folder = folder
        self._number = -1
        self._calls = 0
        self._lock = threading.Lock()

    def execute_if_reached(self) -> None:
        """Counts a call; kills if the order says so, unless another process has executed it."""
        order = kill_order.armed(self._folder)
        if order is None or order.point != self.point.name:
            return
        with self._lock:
            if order.number != self._number:
                self._number, self._calls = order.number, 0
            self._calls += 1
            reached = self._calls >= order.call
        if reached and kill_order.claim(self._folder, order):
            kill_order.execute(self._folder, order)


def _call(function: Callable[..., Any], counter: _CallCounter) -> Callable[..., Any]:
    moment = counter.point.moment

    def wrapped(*args: Any, **options: Any) -> Any:
        if moment is Moment.BEFORE:
            counter.execute_if_reached()
        result = function(*args, **options)
        if moment is Moment.AFTER:
            counter.execute_if_reached()
        return result

    return wrapped


def _other_changes(folder: Path, settings: Settings) -> Iterator[tuple[str, Change]]:
    ca_file = Path(settings.ca_file)
    yield "connectors.sinks.pagerduty", functools.partial(_use_pagerduty, url=settings.pagerduty_url, ca_file=ca_file)
    yield "connectors.sinks.slack", functools.partial(_use_slack, url=settings.slack_url, ca_file=ca_file)
    yield from delivery_log.changes(folder)
    if settings.recording is not None:
        yield "connectors.gather.gatherer", functools.partial(_replay, folder=folder, settings=settings)
        yield "streaming.pipeline.early_alerts", _evaluate_nothing_early
    if settings.clock_factor != 1.0:
        yield "connectors.wall_clock", functools.partial(_run_clock_faster, settings=settings)


def _use_pagerduty(module: ModuleType, *, url: str, ca_file: Path) -> None:
    """Changes the address of the service, of which the configuration has no key."""
    module.PagerdutySection.servers_of_regions = dict.fromkeys(("us", "eu"), url)
    module.PagerdutySection.ca_file = ca_file


def _use_slack(module: ModuleType, *, url: str, ca_file: Path) -> None:
    module.SlackSection.ca_file = ca_file
    init = module.SlackSink.__init__

    def at_address(self: Any, section: Any, *rest: Any, **options: Any) -> None:
        init(self, section.model_copy(update={"api_url": url}), *rest, **options)

    module.SlackSink.__init__ = at_address


def _replay(module: ModuleType, *, folder: Path, settings: Settings) -> None:
    recording = Path(settings.recording or "")

    def main(stdin: BinaryIO, stdout: TextIO) -> int:
        # Not earlier: it imports modules that are changed.
        replay = importlib.import_module(settings.gatherer).replay
        code: int = replay(stdin, stdout, folder=folder, recording=recording)
        return code

    module.main = main  # type: ignore[attr-defined]


def _evaluate_nothing_early(module: ModuleType) -> None:
    """The rows of a recording arrive faster than Spark starts: how many are early would depend on the machine."""
    module.EarlyEvaluation._observed = lambda *_: ()


def _run_clock_faster(module: ModuleType, *, settings: Settings) -> None:
    machine_ms = module.wall_ms
    module.wall_ms = lambda: wall_ms(settings, machine_ms())  # type: ignore[attr-defined]
    # Both run faster: a wall clock that runs ahead of the monotonic clock was set.
    module.steady_ms = module.wall_ms  # type: ignore[attr-defined]
