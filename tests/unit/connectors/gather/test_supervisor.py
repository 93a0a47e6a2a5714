from connectors.errors import KraftwatchError
from connectors.event import ObservationFailed
from connectors.gather.supervisor import fenced, told
from connectors.kafka.event_loop import Loop
from rules.model.monitoring import ObservationSource, Reason

SECRET = "never-to-be-seen"


class Heard:
    """An Output that keeps failures."""

    def __init__(self) -> None:
        self.failures: list[ObservationFailed] = []

    def unseen(self, event: ObservationFailed) -> None:
        self.failures.append(event)


def test_a_fault_is_told_and_the_coroutine_started_again_while_the_others_go_on(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("connectors.gather.supervisor._FIRST_S", 0.01)
    loop, heard, starts, ticks = Loop(), Heard(), [], []

    async def broken() -> None:
        starts.append(1)
        raise KeyError(SECRET)

    async def healthy() -> None:
        while True:
            ticks.append(1)
            await loop.sleep(0.005)

    async def main() -> None:
        loop.spawn(fenced(loop, "a", ObservationSource.LOG, heard, broken))  # type: ignore[arg-type]
        loop.spawn(fenced(loop, "b", ObservationSource.LOG, heard, healthy))  # type: ignore[arg-type]
        while len(starts) < 3:
            await loop.sleep(0.005)

    loop.run(main)
    loop.close()
    assert len(ticks) > 3
    assert {event.reason for event in heard.failures} == {Reason.INTERRUPTED}
    assert all("KeyError at test_supervisor.py" in event.detail for event in heard.failures)
    assert all(SECRET not in event.detail for event in heard.failures)


def test_only_our_own_words_are_repeated() -> None:
    assert told(KraftwatchError("one clear sentence")) == "one clear sentence"
    assert SECRET not in told(ValueError(SECRET))
