"""The dead-man heartbeat against a real HTTP server: it beats while the job is well, and harms nothing otherwise."""

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.secret import Secret
from streaming.config import checked
from streaming.metrics import heartbeat
from streaming.metrics.heartbeat import Heartbeat, HeartbeatSchedule, asked
from tests.eventually import eventually
from tests.unit.streaming.metrics.heartbeat_server import SECRET, Service


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as service:
        yield service


def rhythm(service: Service, every_s: float = 0.02) -> HeartbeatSchedule:
    return HeartbeatSchedule(url=Secret(text=service.url), every_s=every_s)


def test_it_beats_again_and_again_while_the_job_is_well(service: Service) -> None:
    with Heartbeat(lambda: rhythm(service), well=lambda: True) as heart:

        def often() -> None:
            beats = heart.beats
            assert beats is not None
            assert (beats.sent > 2, beats.failed, beats.last_sent_at_ms is not None) == (True, 0, True)

        eventually(often, within_s=20)
    assert set(service.paths) == {f"/ping/{SECRET}"}


def test_it_is_silent_while_the_job_is_not_well_and_beats_when_it_is(service: Service) -> None:
    asked_for, well = threading.Event(), threading.Event()

    def is_well() -> bool:
        asked_for.set()
        return well.is_set()

    def beaten() -> None:
        assert service.paths

    with Heartbeat(lambda: rhythm(service), well=is_well):
        assert asked_for.wait(60)
        assert service.paths == []
        well.set()
        eventually(beaten, within_s=20)


def test_it_is_not_asked_more_often_than_it_is_wanted(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "LOOK_S", 0.01)
    looks = threading.Semaphore(0)

    def wanted() -> HeartbeatSchedule:
        looks.release()
        return rhythm(service, every_s=3_600)

    with Heartbeat(wanted, well=lambda: True):
        for _ in range(4):
            assert looks.acquire(timeout=60)
    assert len(service.paths) == 1


def test_what_is_configured_may_change_while_it_beats(service: Service) -> None:
    now: list[HeartbeatSchedule | None] = [None]
    with Heartbeat(lambda: now[0], well=lambda: True) as heart:
        assert heart.beats is None
        now[0] = rhythm(service)

        def beaten() -> None:
            assert service.paths

        eventually(beaten, within_s=20)


def test_a_url_that_refuses_is_counted_told_once_and_named_nowhere(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service.status = 404
    with (
        caplog.at_level(logging.DEBUG, logger="streaming"),
        Heartbeat(lambda: rhythm(service), well=lambda: True) as heart,
    ):

        def refused() -> None:
            assert heart.beats is not None
            assert heart.beats.failed > 2

        eventually(refused, within_s=20)
    said = [record.getMessage() for record in caplog.records if record.name == "streaming.metrics.heartbeat"]
    assert said == ["The heartbeat was not taken, and is tried again: it was answered 404"]


@pytest.mark.parametrize(
    "url",
    [
        f"http://127.0.0.1:1/{SECRET}",
        f"http://no-such-host.invalid/{SECRET}",
        f"http://[::{SECRET}",
        f"nonsense/{SECRET}",
    ],
    ids=["refused", "no such name", "no address", "no URL"],
)
def test_nobody_there_is_a_reason_without_a_part_of_the_url(url: str) -> None:
    why = asked(Secret(text=url))
    assert why is not None
    assert SECRET not in why
    assert "no-such" not in why


def test_a_file_that_is_gone_is_a_reason(tmp_path: Path) -> None:
    why = asked(Secret(file=tmp_path / "gone"))
    assert why is not None
    assert "no such file" in why


def test_a_file_may_hold_the_url(service: Service, tmp_path: Path) -> None:
    (tmp_path / "url").write_text(service.url + "\n")
    assert asked(Secret(file=tmp_path / "url")) is None
    assert service.paths == [f"/ping/{SECRET}"]


def configured(**heartbeat: object) -> HeartbeatSchedule | None:
    clusters = [{"name": "prod", "bootstrap": ["c1:9093"]}]
    section = checked({"clusters": clusters, "heartbeat": heartbeat}, "test").heartbeat
    return None if section is None else section.schedule()


def test_the_configuration_takes_a_url_or_its_file() -> None:
    assert configured(url=f"https://hc.test/{SECRET}", every="5m") == HeartbeatSchedule(
        url=Secret(text=f"https://hc.test/{SECRET}"), every_s=300
    )
    assert configured(url_file="/run/secrets/beat") == HeartbeatSchedule(
        url=Secret(file=Path("/run/secrets/beat")), every_s=60
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "give url or url_file, one of them"),
        ({"url": f"https://hc.test/{SECRET}", "url_file": "x"}, "give url or url_file, one of them"),
        ({"url": f"hc.test/{SECRET}"}, "should begin with https:// or http://"),
        ({"url": f"https://hc.test/{SECRET}", "every": 0}, "greater than 0"),
    ],
)
def test_a_mistake_is_one_sentence_without_the_secret(given: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said) as mistake:
        configured(**given)
    assert SECRET not in str(mistake.value)
