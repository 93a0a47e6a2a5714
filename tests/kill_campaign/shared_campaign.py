"""Faults among everything that a job on a cluster consists of: two jobs, two relays, the store, the sink, the network.

A real quorum loses its leader and gets it back, once in each round; meanwhile one part is killed, stopped or does not
answer. People must be told of each change once, by one webhook. `make kill-campaign HALF=shared SEED= COUNT=`.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil
import requests

from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcessError
from tests.job.configured_job import ConfiguredJob, SeparateJob, section
from tests.job.relay_process import RelayProcess
from tests.own_network import OwnNetwork
from tests.postgres_server import PostgresServer
from tests.sinks.server import HttpDouble, HttpReply, NoReply, ReceivedRequest, serving

THRESHOLDS = {
    "no-leader": {"hold": 4, "clear": 3},
    **{rule: {"hold": 3_600} for rule in ("failure-tolerance", "voter-lagging", "stale-voter-endpoint", "epoch-churn")},
}
LIMIT_S = 180.0
"""A change that nobody was told of for so long is lost."""
FAULT_S = 12.0
"""How long what is not killed is stopped, or does not answer."""
START_S = 240.0


@dataclass(slots=True)
class SharedResult:
    """What the campaign found."""

    delays_s: dict[str, list[float]] = field(default_factory=dict)
    """From a change of the quorum to its notification, by fault."""
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        for fault, delays in sorted(self.delays_s.items()):
            yield f"shared: {fault}: {len(delays)} times, told after at most {max(delays):.1f} s"
        yield f"shared: lost {len(self.lost)}, doubled {len(self.doubled)}"
        yield from (*self.lost, *self.doubled)


class SharedCampaign:
    """Everything that runs, and the faults."""

    def __init__(self, folder: Path, seed: int, count: int) -> None:
        self._folder, self._random, self._count = folder, Random(seed), count
        self._result = SharedResult()
        self._refused: set[int] = set()
        """The identities of the requests that the sink has not accepted."""
        self._expected: list[str] = []

    def run(self, report: Callable[[str], None]) -> SharedResult:
        """Runs all rounds."""
        with ExitStack() as stack:
            self._start(stack)
            for number in range(self._count):
                fault = self._random.choice([*self._faults])
                report(f"{number + 1}: {fault}: {self._round(fault)}")
        return self._result

    def _start(self, stack: ExitStack) -> None:
        self._pool = stack.enter_context(ThreadPoolExecutor(4))
        self._lab = stack.enter_context(Lab(self._folder / "lab", brokers=0))
        topic_lab = stack.enter_context(Lab(self._folder / "topic", controllers=0, combined=1, brokers=0))
        self._server = stack.enter_context(PostgresServer())
        self._webhook: HttpDouble = stack.enter_context(serving())
        cluster = section("test", self._lab)
        self._relays = [
            RelayProcess(self._folder / f"relay-{number}", topic_lab, topic="observations", clusters=[cluster])
            for number in (1, 2)
        ]
        for relay in self._relays:
            stack.callback(relay.stop)
            relay.start()
        self._relays[0].wait_for_rows(1)
        store = self._server.database("kraftwatch").url
        topic = topic_lab.broker_bootstrap[0]
        ports = [int(each.rpartition(":")[2]) for each in (str(self._server.port), topic, self._webhook.url)]
        self._ports = dict(zip(("store", "topic", "sink"), ports, strict=True))
        self._jobs = [self._job(number, store, stack.enter_context(OwnNetwork())) for number in (1, 2)]
        for job in self._jobs:
            stack.enter_context(job)
        self._restarts: list[Future[None]] = [self._pool.submit(lambda: None) for _ in self._jobs]
        self._faults: dict[str, Callable[[], Callable[[], object]]] = {
            "active job killed": lambda: self._kill_job(self._active()),
            "standby job killed": lambda: self._kill_job(1 - self._active()),
            "active job stopped": self._stop_active,
            "Python worker of the active job killed": self._kill_worker,
            "a relay killed": self._kill_relay,
            "store killed": self._stop_store,
            "sink refuses": lambda: self._sink(HttpReply(status=503)),
            "sink does not answer": lambda: self._sink(NoReply()),
            "active job cut from the store": lambda: self._cut(self._active(), "store"),
            "active job cut from the topic": lambda: self._cut(self._active(), "topic"),
            "active job cut from the sink": lambda: self._cut(self._active(), "sink"),
            "active job cut from everything": lambda: self._cut(self._active(), "store", "topic", "sink"),
            "standby job cut from everything": lambda: self._cut(1 - self._active(), "store", "topic", "sink"),
        }

    def _job(self, number: int, store: str, network: OwnNetwork) -> SeparateJob:
        network.reach(*self._ports.values())
        folder = self._folder / f"job-{number}"
        job = SeparateJob(folder=folder, bootstrap=(), name="test", start_s=START_S, network=network)
        job.write_config(
            clusters=[section("test", self._lab)],
            source="kafka",
            relay={**self._relays[0].section, "folder": str(self._folder / "no-relay")},
            thresholds=THRESHOLDS,
            store=store,
            sinks=[{"webhook": {"url": f"{self._webhook.url}/people", "repeat": "never", "name": "people"}}],
        )
        return job

    def _round(self, fault: str) -> str:
        before = self._random.random() < 0.5
        pause_s = self._random.uniform(0.0, 8.0)
        began = 0.0
        end: Callable[[], object] = lambda: None  # noqa: E731
        for step in ("fault", "change") if before else ("change", "fault"):
            if step == "fault":
                end = self._faults[fault]()
            else:
                began = self._change()
            if step == ("fault" if before else "change"):
                time.sleep(pause_s)
        ended = self._pool.submit(end)
        told = self._await(lambda: len(self._told()) >= len(self._expected))
        delay_s = time.monotonic() - began
        ended.result()
        self._await(self._is_whole)
        self._result.delays_s.setdefault(fault, []).append(delay_s)
        place = f"{fault}, {'before' if before else 'after'} the change by {pause_s:.1f} s"
        if not told:
            self._result.lost.append(f"lost: {self._expected[-1]}: {place}")
        elif (found := self._told()) != self._expected:
            self._result.doubled.append(f"doubled: {found[-3:]} instead of {self._expected[-3:]}: {place}")
        self._expected = self._told()
        return f"{self._expected[-1] if self._expected else 'nothing'} after {delay_s:.1f} s"

    def _change(self) -> float:
        """Takes the quorum's leader away, or gives it back; returns when."""
        fires = not self._expected or self._expected[-1] == "resolved"
        (self._lab.pause if fires else self._lab.resume)(*self._lab.controllers[:2])
        self._expected = [*self._expected, "firing" if fires else "resolved"]
        return time.monotonic()

    def _told(self) -> list[str]:
        """The accepted notifications about the leader, in order."""
        bodies = [json.loads(each.body) for each in list(self._webhook.requests) if id(each) not in self._refused]
        return [body["reason"] for body in bodies if body["alerts"][0]["rule"] == "no-leader"]

    def _active(self) -> int:
        return 0 if notifies(self._jobs[0]) == 1 else 1

    def _is_whole(self) -> bool:
        restarted = all(each.done() and each.result() is None for each in self._restarts)
        return restarted and sorted(map(notifies, self._jobs)) == [0, 1]

    def _await(self, check: Callable[[], bool]) -> bool:
        until, times = time.monotonic() + LIMIT_S, 0
        # Twice: a request is noted a moment before the sink refuses it.
        while times < 2 and time.monotonic() < until:
            self._restart_ended_jobs()
            times = times + 1 if check() else 0
            time.sleep(0.2)
        return times == 2

    def _restart_ended_jobs(self) -> None:
        """Does what a supervisor does."""
        for number, job in enumerate(self._jobs):
            if self._restarts[number].done() and job.has_ended:
                self._restarts[number] = self._pool.submit(_restart, job)

    def _kill_job(self, number: int) -> Callable[[], object]:
        self._jobs[number].kill()
        return lambda: None

    def _stop_active(self) -> Callable[[], object]:
        job = self._jobs[self._active()]
        pids = [job.pid, *(each.pid for each in psutil.Process(job.pid).children(recursive=True))]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        until = time.monotonic() + 2 * FAULT_S

        def go_on() -> None:
            time.sleep(max(0.0, until - time.monotonic()))
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

        return go_on

    def _cut(self, number: int, *places: str) -> Callable[[], object]:
        network = self._jobs[number].network
        network.cut(*(self._ports[each] for each in places))
        until = time.monotonic() + 3 * FAULT_S

        def restore() -> None:
            time.sleep(max(0.0, until - time.monotonic()))
            network.restore()

        return restore

    def _kill_worker(self) -> Callable[[], object]:
        job = self._jobs[self._active()]
        for process in psutil.Process(job.pid).children(recursive=True):
            # A process may end meanwhile.
            with suppress(psutil.Error):
                if "pyspark.daemon" in process.cmdline():
                    process.kill()
        return lambda: None

    def _kill_relay(self) -> Callable[[], object]:
        relay = self._random.choice(self._relays)
        relay.kill()
        return relay.start

    def _stop_store(self) -> Callable[[], object]:
        self._server.stop()
        until = time.monotonic() + FAULT_S

        def start() -> None:
            time.sleep(max(0.0, until - time.monotonic()))
            self._server.start()

        return start

    def _sink(self, behaviour: HttpReply | NoReply) -> Callable[[], object]:
        def refuse(request: ReceivedRequest) -> HttpReply | NoReply:
            self._refused.add(id(request))
            return behaviour

        self._webhook.behave = refuse
        until = time.monotonic() + FAULT_S

        def accept() -> None:
            time.sleep(max(0.0, until - time.monotonic()))
            self._webhook.behave = lambda _: HttpReply()

        return accept


def _restart(job: ConfiguredJob) -> None:
    job.stop()
    # A fault of the next round may kill it meanwhile: then it is started again.
    with suppress(JobProcessError):
        job.start()


def notifies(job: ConfiguredJob) -> int:
    """Whether a job says that it notifies; -1 if it does not answer."""
    try:
        lines = requests.get(f"http://{job.address}/metrics", timeout=2).text.splitlines()
    except requests.RequestException:
        return -1
    return next((int(float(line.split()[-1])) for line in lines if line.startswith("kraftwatch_notifies")), -1)
