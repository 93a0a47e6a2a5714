"""What is changed in the processes of an instrumented job: kill points, a log of all sink calls, addresses, the clock.

Product code is not edited: functions are wrapped when their modules are imported. Standard library only, because it
runs at the start of every Python process of the job.
"""

import functools
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, TextIO

from tests.chaos import delivery_log, kill_order
from tests.chaos.kill_point import KILL_POINTS, KillPoint

Change = Callable[[ModuleType], None]

SETTINGS = "instrumentation.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the run sets in the processes of the job."""

    pagerduty_url: str
    slack_url: str
    ca_file: str
    """The authority of both services."""
    churning: bool = False
    """The gatherer appends the rows of churning clusters instead of observing some (`tests.bench.day_gatherer`)."""
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
    _change_on_import(changes)


def _change_on_import(changes: Mapping[str, Sequence[Change]]) -> None:
    """Changes each module right after its import, before any other module can use a name of it."""
    load = SourceFileLoader.exec_module

    def load_and_change(loader: SourceFileLoader, module: ModuleType) -> None:
        load(loader, module)
        for change in changes.get(module.__name__, ()):
            change(module)

    SourceFileLoader.exec_module = load_and_change  # type: ignore[method-assign, assignment]
    for name in changes.keys() & sys.modules.keys():
        for change in changes[name]:
            change(sys.modules[name])


def wall_ms(settings: Settings, now_ms: int) -> int:
    """Returns the job's wall clock for the machine's one."""
    from_ms = round(settings.clock_from_s * 1000)
    return from_ms + round((now_ms - from_ms) * settings.clock_factor)


def resolve(module: ModuleType, path: str) -> tuple[Any, str, Callable[..., Any]]:
    """Returns the object that has the function, its attribute name, and the function.

    Raises:
        AttributeError: the product has no such function any more: change the kill point.
    """
    *parents, name = path.split(".")
    owner: Any = functools.reduce(getattr, parents, module)
    return owner, name, getattr(owner, name)


def _add_kill_point(module: ModuleType, *, folder: Path, point: KillPoint) -> None:
    owner, name, function = resolve(module, point.function)
    count = _call_counter(folder, point)

    @functools.wraps(function)
    def wrapped(*args: Any, **options: Any) -> Any:
        if point.moment == "before":
            count()
        result = function(*args, **options)
        if point.moment == "after":
            count()
        return result

    setattr(owner, name, wrapped)


def _call_counter(folder: Path, point: KillPoint) -> Callable[[], None]:
    """Returns a function that counts a call, and kills if the order in force says so and no other process has."""
    number, calls, lock = -1, 0, threading.Lock()

    def count() -> None:
        nonlocal number, calls
        order = kill_order.armed(folder)
        if order is None or order.point != point.name:
            return
        with lock:
            calls = calls + 1 if order.number == number else 1
            number = order.number
            reached = calls >= order.call
        if reached and kill_order.claim(folder, order):
            kill_order.execute(folder, order)

    return count


def _other_changes(folder: Path, settings: Settings) -> Iterator[tuple[str, Change]]:
    ca_file = Path(settings.ca_file)
    yield (
        "connectors.sinks.pagerduty.config",
        functools.partial(_use_pagerduty, url=settings.pagerduty_url, ca_file=ca_file),
    )
    yield "connectors.sinks.slack.config", functools.partial(_use_slack, url=settings.slack_url, ca_file=ca_file)
    yield from delivery_log.changes(folder)
    if settings.churning:
        yield "connectors.gather.gatherer", functools.partial(_replace, folder=folder)
        yield "streaming.pipeline.early_alerts", _evaluate_nothing_early
    if settings.clock_factor != 1.0:
        yield "connectors.process.wall_clock", functools.partial(_run_clock_faster, settings=settings)


def _use_pagerduty(module: ModuleType, *, url: str, ca_file: Path) -> None:
    """Changes the address of the service, of which the configuration has no key."""
    module.PagerdutySection.servers_of_regions = dict.fromkeys(("us", "eu"), url)
    module.PagerdutySection.ca_file = ca_file


def _use_slack(module: ModuleType, *, url: str, ca_file: Path) -> None:
    module.SlackSection.ca_file = ca_file
    place = module.SlackPlace
    module.SlackPlace = lambda **settings: place(**{**settings, "api_url": url})  # type: ignore[attr-defined]


def _replace(module: ModuleType, *, folder: Path) -> None:
    def main(stdin: BinaryIO, stdout: TextIO) -> int:
        # Not earlier: it imports modules that are changed.
        from tests.bench.day_gatherer import gather

        return gather(stdin, stdout, folder=folder)

    module.main = main  # type: ignore[attr-defined]


def _evaluate_nothing_early(module: ModuleType) -> None:
    """The rows arrive faster than Spark starts: how many are early would depend on the machine."""
    module.EarlyEvaluation._observe = lambda *_: None


def _run_clock_faster(module: ModuleType, *, settings: Settings) -> None:
    machine_ms = module.wall_ms
    module.wall_ms = lambda: wall_ms(settings, machine_ms())  # type: ignore[attr-defined]
    # Both run faster: a wall clock that runs ahead of the monotonic clock was set.
    module.steady_ms = module.wall_ms  # type: ignore[attr-defined]
