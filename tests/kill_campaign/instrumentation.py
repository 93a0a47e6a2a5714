"""What is changed in the processes of a campaign's job: kill points, a log of all sink calls, addresses, the clock.

Product code is not edited: functions are wrapped when their modules are imported. Standard library only, because it
runs at the start of every Python process of the job.
"""

import functools
import importlib
import importlib.abc
import importlib.machinery
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, TextIO

from tests.kill_campaign import delivery_log, kill_order
from tests.kill_campaign.kill_point import KILL_POINTS, KillPoint

Change = Callable[[ModuleType], None]

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
    _ImportHook(changes).install()


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


class _ImportHook(importlib.abc.MetaPathFinder):
    """Calls the changes of a module right after its import, before any other module can use a name of it."""

    def __init__(self, changes: Mapping[str, Sequence[Change]]) -> None:
        """`changes` by the full name of the module."""
        self._changes = changes

    def install(self) -> None:
        """Changes modules from now on, and those that are imported already."""
        sys.meta_path.insert(0, self)
        for name in self._changes:
            if name in sys.modules:
                self._change(sys.modules[name])

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Finds a module that is to be changed as Python does, and adds the changes to its loading."""
        if fullname not in self._changes:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            self._change(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # this loader loads this module only
        return spec

    def _change(self, module: ModuleType) -> None:
        for change in self._changes[module.__name__]:
            change(module)
