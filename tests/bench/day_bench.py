"""A day of life: HOURS (2) of churn in some clusters, at SPEED (20) times real time, in the real job.

The gatherer is replaced: it writes the rows of clusters in which topics, partitions, leaders, brokers, disks and
voters change all the time, and the job's wall clock runs as fast. With SOURCE=kafka a relay gathers, and the job reads
its topic. Memory, descriptors, threads and files are sampled all the time. What grows that the documents do not let
grow is a problem, from 6 hours on.
"""

import json
import math
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, Final

import psutil

from connectors.store.collection import quarantine_of
from connectors.store.tables import job_database
from deploy.lab.lab import Lab
from tests.bench.day_gatherer import Day, churn
from tests.bench.job_cost import processes_of
from tests.bench.samples import ALL, RELAY, Sample, courses, sample
from tests.chaos import job_processes
from tests.chaos.instrumentation import Settings, wall_ms
from tests.chaos.sink_services import Availability, SinkServices, people_sinks, running_services
from tests.job.configured_job import ConfiguredJob
from tests.job.job_state import get_json, scrape
from tests.job.relay_process import RelayProcess

CLUSTERS = ("amber", "birch", "cedar", "delta", "ember", "fir", "garnet", "hazel")
SAMPLES, EVERY_S = 30, 60.0
"""At least so many samples, and at least one in so many seconds."""
FEWEST = 6
LEAST_HOURS = 6.0
"""A shorter run is not judged: Java and Python still fill their caches."""
MIB: Final = 1.048576
BEHIND = "behind: s"
BOUNDS = {
    ALL: 2_000.0,
    # Its retention is 7 days.
    "topic: MB": math.inf,
    "topic: files": math.inf,
    # Of a busy machine.
    BEHIND: math.inf,
    # 1 GiB of rows, in pages that are not full; 10,000 transitions of at most 10 kB; the log of each database.
    "observations: MB": 1.25 * 1_024 * MIB + 64 * MIB,
    "store: MB": 100.0 + 64 * MIB,
    "logs: MB": 75.0,
    # Java's native libraries, and dozens of copies of the state, which remembers replaced directories for a day.
    "temporary files: MB": 64 * MIB,
}
"""What the documents say."""
TOPIC = "observations"
AVAILABILITY = (*[Availability.UP] * 6, Availability.SLOW, Availability.DOWN)


@dataclass(kw_only=True)
class DayOfLife:
    """One day: a job, and with SOURCE=kafka a relay and its topic."""

    folder: Path
    job: ConfiguredJob
    services: SinkServices
    hours: float
    settings: Settings
    relay: RelayProcess | None = None
    topic: Lab | None = None

    @property
    def left_h(self) -> float:
        """The hours until the end of the day: then the job's clock is that of the machine."""
        now_ms = time.time_ns() // 1_000_000
        return (self.settings.clock_from_s * 1_000 - wall_ms(self.settings, now_ms)) / 3_600_000

    def live(self) -> Sequence[tuple[float, Sample]]:
        """Samples until the end of the day; the sinks are up, slow and down in turn, and the page is read."""
        random = Random(1)
        every_s = min(EVERY_S, self.hours * 3_600 / self.settings.clock_factor / SAMPLES)
        samples: list[tuple[float, Sample]] = []
        while (left_h := self.left_h) > 0 and not self.job.has_ended:
            for service in (self.services.pagerduty, self.services.slack):
                service.availability = random.choice(AVAILABILITY)
            scrape(self.job)
            clusters = get_json(self.job, "/api/clusters")["clusters"]
            health = Counter(cluster["health"] for cluster in clusters)
            values = {**sample(self._processes(), self._folders()), BEHIND: self._behind_s(clusters)}
            samples.append((self.hours - left_h, values))
            (self.folder / "samples.json").write_text(json.dumps(samples), encoding="utf-8")
            print(f"{self.hours - left_h:5.1f} h {values[ALL]:6.0f} MB {dict(health)}", file=sys.stderr)
            time.sleep(every_s)
        for service in (self.services.pagerduty, self.services.slack):
            service.availability = Availability.UP
        return samples

    def _behind_s(self, clusters: Sequence[Mapping[str, Any]]) -> float:
        """Returns how old, in real seconds, the newest evaluated observation of each cluster is at most."""
        end_s, left_s = self.settings.clock_from_s, self.left_h * 3_600
        seen = [datetime.fromisoformat(each["observed_at"]).timestamp() for each in clusters if each["observed_at"]]
        return (end_s - left_s - min(seen, default=end_s)) / self.settings.clock_factor

    def problems(self) -> list[str]:
        """Returns what went wrong, beside growth."""
        if self.job.has_ended:
            return ["the job has ended by itself"]
        quarantined = quarantine_of(job_database(self.job.checkpoint, read_only=True)).items()
        refused = [*self.services.pagerduty.refused, *self.services.slack.refused]
        broken = [alert.line["summary"] for alert in self.job.alerts() if alert.rule == "data-contract-broken"]
        return [
            *(f"quarantined: {name}" for name in quarantined),
            *(f"a service refused: {text}" for text in refused),
            *(f"data contract: {text}" for text in broken),
        ]

    def _processes(self) -> Mapping[psutil.Process, str]:
        found = dict(processes_of(self.job.pid))
        return found if self.relay is None else {**found, psutil.Process(self.relay.pid): RELAY}

    def _folders(self) -> Mapping[str, Sequence[Path]]:
        checkpoint = self.job.checkpoint
        found = {
            "observations": [checkpoint / "journal"],
            "store": [*checkpoint.glob("kraftwatch.db*")],
            "Spark's checkpoint": [checkpoint / "spark"],
            # The logs are renamed all the time.
            "logs": [each for each in (checkpoint / "log").iterdir() if each.is_file()],
            "temporary files": [checkpoint / "log" / "tmp"],
        }
        if self.relay is None or self.topic is None:
            return found
        topic = [*self.topic.directory.glob(f"node-*/**/{TOPIC}-*")]
        return {**found, "relay's folder": [Path(self.relay.section["folder"])], "topic": topic}


def figures() -> dict[str, Any]:
    """Returns how often everything happened, the alerts, the course of each number, and what went wrong."""
    hours, speed = float(os.environ.get("HOURS") or 2), float(os.environ.get("SPEED") or 20)
    folder = Path(tempfile.mkdtemp(prefix="kraftwatch-day-"))
    print(f"{hours:g} h of {len(CLUSTERS)} clusters in {60 * hours / speed:.0f} min; {folder}", file=sys.stderr)
    with ExitStack() as stack:
        day = _begun(folder, stack, hours, speed)
        samples = day.live()
        problems = day.problems()
    assert len(samples) >= FEWEST, "the day was over before the job had started: give more HOURS"
    found = courses(samples, BOUNDS)
    problems += [f"{course.name} grows" for course in found if course.grows and hours >= LEAST_HOURS]
    fired = Counter(alert.rule for alert in day.job.alerts() if alert.state == "firing")
    return {
        "happened": churn(folder),
        "fired": dict(fired.most_common()),
        "courses": {course.name: course.text() for course in found},
        "problems": problems,
    }


def _begun(folder: Path, stack: ExitStack, hours: float, speed: float) -> DayOfLife:
    """Starts everything."""
    services = stack.enter_context(running_services(folder / "ca"))
    topic = None
    if os.environ.get("SOURCE") == "kafka":
        topic = stack.enter_context(Lab(folder / "topic", controllers=0, combined=1, brokers=0))
    settings = services.write_settings(
        folder,
        churning=True,
        clock_from_s=time.time() + hours * 3_600 / speed,
        clock_factor=speed,
    )
    until_ms = round(settings.clock_from_s * 1_000)
    plan = Day(seed=int(os.environ.get("SEED") or 1), clusters=CLUSTERS, until_ms=until_ms)
    plan.write(folder)
    environment = job_processes.environment(folder)
    job = ConfiguredJob(folder=folder / "job", name=CLUSTERS[0], bootstrap=(), environment=environment)
    day = DayOfLife(folder=folder, job=job, services=services, hours=hours, settings=settings, topic=topic)
    clusters = [each.section(number) for number, each in enumerate(plan.churning(until_ms), start=1)]
    config: dict[str, Any] = {"clusters": clusters, "sinks": [f"jsonl:{job.jsonl}", *people_sinks(repeat="1h")]}
    if topic is not None:
        relay = RelayProcess(folder / "relay", topic, topic=TOPIC, clusters=clusters, environment=environment)
        stack.callback(relay.stop)
        relay.start()
        relay.wait_for_rows(1)
        day.relay = relay
        config |= {"source": "kafka", "relay": {**relay.section, "folder": str(folder / "no-relay")}}
    job.write_config(**config)
    stack.enter_context(job)
    return day
