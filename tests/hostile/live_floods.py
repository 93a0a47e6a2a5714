"""A real job that monitors a real controller beside two whose logs never end: how late its alert is."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from rules.evaluate import RULES
from tests.eventually import eventually
from tests.farm.farm import FLOOD, address
from tests.farm.farm_answers import NODES
from tests.farm.farm_process import running_farm
from tests.hostile.section import SectionResult
from tests.job.configured_job import ConfiguredJob, section
from tests.job.job_state import scrape
from tests.lab import Lab

FLOODS: Final = ("features", "controllers")
"""Those that take most time: the one in the step, the other in the gatherer."""
LATE_S: Final = 2.0
WITHIN_S: Final = 120.0


@contextmanager
def flooded_job(folder: Path, floods: Sequence[str] = FLOODS) -> Iterator[tuple[ConfiguredJob, Lab]]:
    """Yields a job and its healthy cluster once rows of every flood wait."""
    with ExitStack() as stack:
        lab = stack.enter_context(Lab(folder / "lab", controllers=1, brokers=0))
        sections = [section("healthy", lab)]
        farm = stack.enter_context(running_farm(len(floods), *(f"{FLOOD}{flood}" for flood in floods)))
        for number, flood in enumerate(floods):
            name, nodes = f"flood of {flood}".replace(" ", "-"), [address(number, node) for node in NODES]
            sections.append({"name": name, "bootstrap": [f"{node}:{farm.port}" for node in nodes]})
        job = ConfiguredJob(folder=folder / "job", bootstrap=(), name="healthy")
        job.write_config(clusters=sections)
        stack.enter_context(job)

        def every_flood_waits() -> None:
            waiting = [value for (name, _), value in scrape(job).items() if name == "waiting_bytes"]
            assert sum(value > 0 for value in waiting) == len(floods)

        eventually(every_flood_waits, within_s=WITHIN_S)
        yield job, lab


def lateness(folder: Path) -> SectionResult:
    """Kills the healthy controller and measures when `no-leader` is sent, from the end of its hold."""
    with flooded_job(folder) as (job, lab):
        lab.kill(1)
        alert = job.wait_for("no-leader")
        late_s = alert.sent_at - alert.started_at - RULES["no-leader"].hold.default
    result = SectionResult(name="live floods", tried=len(FLOODS))
    result.figure = f"the alert of the healthy cluster was sent {late_s:.1f} s after it was due"
    if late_s > LATE_S:
        result.problems.append(result.figure)
    return result
