from connectors.errors import KraftwatchError
from connectors.gather.cluster_gatherer import describe_fault, supervised
from connectors.kafka.event_loop import EventLoop
from rules.model.monitoring import ObservationSource, Reason
from tests.unit.connectors.gather.scripted_cluster import RecordedOutput

SECRET = "secret-text"


def test_failed_coroutine_is_recorded_and_restarted_while_others_continue(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("connectors.gather.cluster_gatherer._RESTART_AFTER_S", 0.01)
    loop, output, starts, ticks = EventLoop(), RecordedOutput(), [], []

    async def broken() -> None:
        starts.append(1)
        raise KeyError(SECRET)

    async def healthy() -> None:
        while True:
            ticks.append(1)
            await loop.sleep(0.005)

    async def main() -> None:
        loop.spawn(supervised(loop, "a", ObservationSource.LOG, output, broken))  # type: ignore[arg-type]
        loop.spawn(supervised(loop, "b", ObservationSource.LOG, output, healthy))  # type: ignore[arg-type]
        while len(starts) < 3:
            await loop.sleep(0.005)

    loop.run(main)
    loop.close()
    assert len(ticks) > 3
    assert {event.reason for event in output.failures} == {Reason.TASK_FAILED}
    assert all("KeyError at test_cluster_gatherer.py" in event.detail for event in output.failures)
    assert all(SECRET not in event.detail for event in output.failures)


def test_only_messages_of_kraftwatch_errors_are_included() -> None:
    assert describe_fault(KraftwatchError("one clear sentence")) == "one clear sentence"
    assert SECRET not in describe_fault(ValueError(SECRET))
