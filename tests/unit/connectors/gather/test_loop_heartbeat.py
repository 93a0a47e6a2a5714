"""The heartbeat of the event loop: its stalls are measured, also from outside a frozen gatherer."""

import json
import signal
from pathlib import Path

from connectors.gather.gatherer_stats import STALLED_S, LoopHeartbeat, read_stats, stalled_loop_s
from connectors.kafka.event_loop import EventLoop
from tests.eventually import eventually
from tests.kafka.gatherer_run import run_gatherer
from tests.unit.connectors.gather.blocked_loop import block
from tests.unit.connectors.gather.unreachable import unreachable_cluster


def test_stall_of_the_loop_is_measured_and_forgotten_after_a_minute(simulated_time_loop: EventLoop) -> None:
    loop = simulated_time_loop
    heartbeat = LoopHeartbeat(loop)

    async def main() -> None:
        loop.spawn(heartbeat.run())
        await loop.sleep(10)
        assert heartbeat.longest_stall_s < 0.01
        block(loop, 7)
        await loop.sleep(1)
        assert 6.7 < heartbeat.longest_stall_s <= 7
        assert heartbeat.turn_at_s > loop.now() - 0.3
        await loop.sleep(61)
        assert heartbeat.longest_stall_s < 0.01

    loop.run(main)


def test_frozen_gatherer_is_noticed_from_outside_and_recovers(tmp_path: Path) -> None:
    with run_gatherer(tmp_path, unreachable_cluster()) as gatherer:
        stats, process = gatherer.stats_file, gatherer.process

        def runs() -> None:
            stalled_s = stalled_loop_s(stats, pid=process.pid)
            assert stalled_s is not None
            assert stalled_s < STALLED_S

        eventually(runs, within_s=30)
        assert stalled_loop_s(stats, pid=process.pid + 1) is None, "the file of another gatherer shows nothing"
        process.send_signal(signal.SIGSTOP)

        def is_frozen() -> None:
            stalled_s = stalled_loop_s(stats, pid=process.pid)
            assert stalled_s is not None
            assert stalled_s > STALLED_S

        try:
            eventually(is_frozen, within_s=60)
        finally:
            process.send_signal(signal.SIGCONT)

        def has_recovered() -> None:
            runs()
            written = read_stats(stats)
            assert written is not None
            assert written.loop.longest_stall_s > STALLED_S - 1

        eventually(has_recovered, within_s=30)


def test_damaged_statistics_are_none(tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    assert read_stats(stats) is None
    stats.write_text(json.dumps({"at_ms": 1, "rows": 2}))
    assert read_stats(stats) is None
    stats.write_text("{")
    assert read_stats(stats) is None
