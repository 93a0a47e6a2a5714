"""When a standby job is silent: heartbeats arrive over real HTTP at its page."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from connectors.errors import UsageError
from connectors.secret import Secret
from rules.alert import Alert, AlertState
from rules.model.identifiers import Millis
from streaming.config import Config, checked
from streaming.config.reload import refuse_fixed
from streaming.job.standby import COVERED_MS, Standby, require_listen
from streaming.metrics.heartbeat import STARTING, request_url
from streaming.web.health_endpoints import heartbeat_endpoint
from streaming.web.page_access import PageAccess
from streaming.web.server import Server
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

TOKEN = "0123456789abcdef0123456789abcdef"


class SwitchedJob:
    """A job's standby switch, with clocks that the test sets."""

    def __init__(self, firing: list[Alert] | None = None, **keys: Any) -> None:
        self.now_s = 1_000.0
        self.set_by_ms = 0
        self.config = config(**keys)
        self.standby = Standby(
            lambda: self.config, firing or [], clock=lambda: self.now_s, wall=lambda: Millis(self.wall_ms)
        )

    @property
    def wall_ms(self) -> int:
        return NOON_MS + round(self.now_s * 1_000) + self.set_by_ms

    def covers(self, observed_at_ms: int) -> bool:
        (hold,) = self.standby.holds()
        return hold.may_discard(alert(observed_at_ms=Millis(observed_at_ms)))

    def due(self) -> list[tuple[AlertState, str]]:
        return [(each.state, each.summary.partition(" Over since")[0]) for each in self.standby.due(NOON_MS)]


def config(**keys: Any) -> Config:
    return checked({"clusters": [{"name": "prod", "bootstrap": ["c1:9093"]}], **keys}, "test")


@pytest.fixture
def job() -> SwitchedJob:
    return SwitchedJob(standby=True, standby_after="30s")


@pytest.fixture
def server(job: SwitchedJob, tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "token").write_text(TOKEN)
    endpoint = heartbeat_endpoint(job.standby.heartbeat_arrived)
    with Server(("127.0.0.1", 0), [endpoint], access=PageAccess(token=Secret(file=tmp_path / "token"))) as server:
        yield server


def test_it_is_silent_until_no_heartbeat_has_arrived_for_the_configured_time(job: SwitchedJob) -> None:
    assert (job.standby.silent, len(job.standby.holds())) == (True, 1)
    job.now_s += 29
    assert job.standby.silent is True
    assert job.standby.heartbeat_arrived()
    job.now_s += 29
    assert job.standby.silent is True
    job.now_s += 1
    assert (job.standby.silent, len(job.standby.holds())) == (False, 0)
    assert job.standby.heartbeat_arrived()
    assert job.standby.silent is True


def test_a_job_that_is_not_a_standby_notifies_and_accepts_no_heartbeat() -> None:
    job = SwitchedJob()
    assert (job.standby.silent, job.standby.holds(), job.standby.heartbeat_arrived()) == (None, [], False)


def test_a_heartbeat_covers_what_happened_a_minute_before(job: SwitchedJob) -> None:
    (before,) = job.standby.holds()
    assert not before.may_discard(alert(observed_at_ms=Millis(0) + 1)), "no heartbeat has arrived yet"
    job.standby.heartbeat_arrived()
    (hold,) = job.standby.holds()
    assert hold.may_discard(alert(observed_at_ms=hold.covered_until_ms))
    assert not hold.may_discard(alert(observed_at_ms=hold.covered_until_ms + COVERED_MS))


@pytest.mark.parametrize("set_by_ms", [3_600_000, -3_600_000])
def test_a_clock_that_was_set_changes_nothing_of_what_a_heartbeat_covers(job: SwitchedJob, set_by_ms: int) -> None:
    job.standby.heartbeat_arrived()
    resolved_at_ms = job.wall_ms
    job.now_s += 10
    job.set_by_ms = set_by_ms
    job.standby.heartbeat_arrived()
    assert not job.covers(resolved_at_ms)
    job.now_s += 20
    job.standby.heartbeat_arrived()
    assert not job.covers(resolved_at_ms)
    for _ in range(5):
        job.now_s += 10
        job.standby.heartbeat_arrived()
    assert job.covers(resolved_at_ms)


def test_an_alert_reports_that_the_first_job_is_gone_and_back(job: SwitchedJob) -> None:
    assert job.due() == []
    job.now_s += 30
    ((state, summary),) = job.due()
    assert state is AlertState.FIRING
    assert summary.startswith("The first job has sent no heartbeat since ")
    assert job.due() == []
    job.standby.heartbeat_arrived()
    assert job.due() == [(AlertState.RESOLVED, "The first job notifies again.")]
    assert job.due() == []


def test_a_restart_while_the_first_job_is_gone_continues_to_notify(job: SwitchedJob) -> None:
    job.now_s += 30
    (fired,) = job.standby.due(NOON_MS)
    restarted = SwitchedJob([fired], standby=True, standby_after="30s")
    assert (restarted.standby.silent, restarted.due()) == (False, [])
    restarted.standby.heartbeat_arrived()
    assert (restarted.standby.silent, [state for state, _ in restarted.due()]) == (True, [AlertState.RESOLVED])
    no_standby = SwitchedJob([fired])
    assert no_standby.due() == [(AlertState.RESOLVED, "This job is no longer a standby.")]
    assert no_standby.due() == []


def test_the_heartbeat_of_the_first_job_arrives_with_the_token_in_its_url(job: SwitchedJob, server: Server) -> None:
    job.now_s += 30
    assert request_url(Secret(text=f"http://any:{TOKEN}@127.0.0.1:{server.port}/heartbeat")) is None
    assert job.standby.silent is True


def test_a_first_job_that_is_starting_does_not_silence_the_standby(job: SwitchedJob, server: Server) -> None:
    job.now_s += 30
    url = Secret(text=f"http://any:{TOKEN}@127.0.0.1:{server.port}/heartbeat")
    assert request_url(url, STARTING) is None
    assert job.standby.silent is False


@pytest.mark.parametrize(
    ("login", "headers", "status"),
    [("", {"X-Kraftwatch-Heartbeat": "1"}, 401), (f"any:{TOKEN}@", {}, 400)],
    ids=["without token", "of a browser"],
)
def test_another_request_is_no_heartbeat(
    job: SwitchedJob, server: Server, login: str, headers: dict[str, str], status: int
) -> None:
    job.now_s += 30
    answer = requests.get(f"http://{login}127.0.0.1:{server.port}/heartbeat", headers=headers, timeout=30)
    assert (answer.status_code, job.standby.silent) == (status, False)


def test_the_first_job_logs_that_the_other_one_is_not_a_standby(job: SwitchedJob, server: Server) -> None:
    job.config = config()
    error = request_url(Secret(text=f"http://any:{TOKEN}@127.0.0.1:{server.port}/heartbeat"))
    assert error == "the service answered 409"


def test_a_standby_job_needs_a_page_and_a_restart() -> None:
    with pytest.raises(UsageError, match=r"^standby: .* add listen or --listen HOST:PORT$"):
        require_listen(config(standby=True))
    require_listen(config(standby=True, listen="127.0.0.1:9847"))
    with pytest.raises(UsageError, match=r"^standby: whoever reaches 0\.0\.0\.0:9847 .* set listen_token_file"):
        require_listen(config(standby=True, listen="0.0.0.0:9847"))
    require_listen(config(standby=True, listen="0.0.0.0:9847", listen_token_file="token"))
    with pytest.raises(UsageError, match="standby cannot change while the job runs"):
        refuse_fixed(config(), config(standby=True))
