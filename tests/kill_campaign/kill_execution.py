"""Executes the kills of a plan on a job, and checks that the job recovers or ends as documented."""

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random

from tests.kill_campaign import job_processes, kill_order
from tests.kill_campaign.campaign_job import END_S, CampaignJob
from tests.kill_campaign.delivery_check import ExecutedKill
from tests.kill_campaign.kill_order import RANDOM, KillOrder
from tests.kill_campaign.kill_point import Role

READY_S = 240.0
"""Within this time a started job must complete a batch."""
UNEXPECTED_ENDS = 3
"""After so many the campaign ends."""
CONTINUES_BATCHES = 2
"""After so many batches since a kill the job has survived it."""
KILLED = -signal.SIGKILL
FAILED = 1
"""The exit code of a job whose query ended by itself."""


class KillExecution:
    """The job, its supervisor, and what happened."""

    def __init__(self, job: CampaignJob, random: Random, *, reach_s: float) -> None:
        """Starts nothing.

        Args:
            job: the job.
            random: chooses among several processes of the same role.
            reach_s: a point that a ready job does not reach within this time is replaced by a random moment.
        """
        self.job = job
        self.kills: list[ExecutedKill] = []
        self.problems: list[str] = []
        self._random = random
        self._reach_s = reach_s
        self._batches_at_start = -1
        self._unexpected_ends = 0

    def start(self) -> None:
        """Starts the job, as a supervisor does as soon as it has ended."""
        self._batches_at_start = self.job.batches()
        self.job.start()

    def await_ready(self) -> None:
        """Waits until the job has completed a batch since its last start; restarts a job that ends meanwhile."""
        deadline = time.monotonic() + READY_S
        while self.job.batches() <= self._batches_at_start:
            if self.job.exit_code is not None:
                self._restart(f"the job ended with exit code {self.job.exit_code} while it started")
            if time.monotonic() > deadline:
                raise CampaignStuckError(f"no batch within {READY_S:g} s: {self.job.newest_output()}")
            time.sleep(0.02)

    def restart_if_ended(self) -> None:
        """Starts the job again, and reports it, if it has ended without a kill."""
        if self.job.exit_code is not None:
            self._restart(f"the job ended with exit code {self.job.exit_code}")

    def _restart(self, reason: str) -> None:
        """Starts a job that has ended without a kill."""
        self.problems.append(f"{reason}: {self.job.newest_output()}")
        self._unexpected_ends += 1
        if self._unexpected_ends > UNEXPECTED_ENDS:
            raise CampaignStuckError(f"the job ended {self._unexpected_ends} times without a kill")
        self.start()

    def execute(self, order: KillOrder, *, when_ordered: Callable[[], None] = lambda: None) -> ExecutedKill:
        """Kills, waits until the job continues or has ended, and starts it again."""
        if not order.while_starting:
            self.await_ready()
        batches = self.job.batches()
        if order.point == RANDOM:
            when_ordered()
            self._kill_at_random(order, at="random moment")
        elif not self._kill_at_point(order, when_ordered):
            self._kill_at_random(order, at=f"random moment ({order.point} not reached)")
        kill = self._executed(order.number)
        self.kills.append(kill)
        self._settle(order, kill, batches)
        return kill

    def _kill_at_point(self, order: KillOrder, when_ordered: Callable[[], None]) -> bool:
        kill_order.arm(self.job.folder, order)
        when_ordered()
        deadline = time.monotonic() + self._reach_s
        while kill_order.armed(self.job.folder) is not None:
            if self.job.batches() <= self._batches_at_start:
                # The time in which the job starts does not count.
                deadline = max(deadline, time.monotonic() + self._reach_s)
            if time.monotonic() > deadline and kill_order.claim(self.job.folder, order):
                return False
            if self.job.exit_code is not None and kill_order.armed(self.job.folder) is not None:
                self._restart(f"the job ended with exit code {self.job.exit_code} before {order.point}")
            time.sleep(0.01)
        return True

    def _kill_at_random(self, order: KillOrder, *, at: str) -> None:
        """Kills one process of the victim's role, or the group, as soon as there is one after the delay."""
        time.sleep(order.delay_s)
        deadline = time.monotonic() + READY_S
        while not (found := self.job.pids(order.victim)):
            if time.monotonic() > deadline:
                raise CampaignStuckError(f"there is no {order.victim}: {self.job.newest_output()}")
            time.sleep(0.05)
        kill_order.write_kill(self.job.folder, order, at=at)
        if order.victim is Role.GROUP:
            job_processes.kill_group(self.job.folder)
            return
        with suppress(ProcessLookupError):
            os.kill(self._random.choice(found), signal.SIGKILL)

    def _executed(self, number: int) -> ExecutedKill:
        deadline = time.monotonic() + END_S
        while time.monotonic() < deadline:
            # The process that is killed takes the order first, and then writes that it is executed.
            with suppress(FileNotFoundError):
                for line in map(json.loads, (self.job.folder / kill_order.KILLS).read_bytes().splitlines()):
                    if line["number"] == number:
                        return ExecutedKill(number=number, at=line["at"], victim=line["victim"], t=line["t"])
            time.sleep(0.01)
        raise CampaignStuckError(f"kill {number} was ordered and not executed: {self.job.newest_output()}")

    def _settle(self, order: KillOrder, kill: ExecutedKill, batches: int) -> None:
        """Waits until the job has ended or continues, and starts an ended one again."""
        victim = order.victim
        deadline = time.monotonic() + (READY_S if order.while_starting else END_S)
        # Batches that were in progress at the kill do not count.
        enough = max(batches, self.job.batches()) + CONTINUES_BATCHES
        # The process that kills the group needs a moment, in which batches may complete.
        ends = victim in (Role.DRIVER, Role.GROUP)
        while self.job.exit_code is None and (ends or self.job.batches() < enough):
            if time.monotonic() > deadline:
                self.problems.append(f"{kill}: the job neither ended nor continued: {self.job.newest_output()}")
                job_processes.kill_group(self.job.folder)
            time.sleep(0.02)
        code = self.job.exit_code
        if code is None:
            return
        expected = KILLED if ends else FAILED
        if code != expected or victim is Role.GATHERER:
            self.problems.append(f"{kill}: the job ended with exit code {code}: {self.job.newest_output()}")
        self.start()


class CampaignStuckError(Exception):
    """The job does not do what the campaign waits for."""
