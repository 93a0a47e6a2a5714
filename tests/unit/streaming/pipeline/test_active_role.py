"""Which of several jobs notifies: the one that has the lease in a real PostgreSQL, and when it gives the lease up."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from connectors.store.lease import JobReport, Lease
from connectors.store.postgres import close_connections
from connectors.store.store_place import PostgresPlace
from connectors.store.tables import job_database
from streaming.pipeline import active_role
from streaming.pipeline.active_role import ActiveRole, is_better
from tests.eventually import eventually
from tests.postgres_server import PostgresServer, needs_postgres

pytestmark = needs_postgres
MINUTE_MS = 60_000
WORKING = JobReport(evaluated_ms=MINUTE_MS, sinks_fail=False)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server
        close_connections()


@pytest.fixture
def place(server: PostgresServer, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> PostgresPlace:
    monkeypatch.setattr(active_role, "RENEW_S", 0.1)
    monkeypatch.setattr(active_role, "SINKS_FAIL_S", 0.2)
    # No stall of the machine ends a lease, and no test waits for one that was not given up.
    monkeypatch.setattr("connectors.store.lease.LEASE_S", 300.0)
    place = server.database(f"a{abs(hash(request.node.name))}")
    job_database(place).create()
    return place


@dataclass
class Replica:
    """A job whose state the test sets."""

    place: PostgresPlace
    name: str
    state: JobReport = WORKING
    settled: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        lease = Lease(job_database(self.place), self.name)
        self.reports = 0
        self.role = ActiveRole(lease, self._report, settle=self._settle)

    def _report(self) -> JobReport:
        self.reports += 1
        return self.state

    def _settle(self, give_up: Callable[[], None]) -> None:
        assert self.role.is_active, "outcomes are recorded before the lease is given up"
        self.settled.append(self.name)
        give_up()


def assert_active(active: Replica, standby: Replica) -> None:
    assert (active.role.is_active, standby.role.is_active, standby.role.is_standby) == (True, False, True)


def test_the_standby_takes_over_as_soon_as_the_active_job_ends(place: PostgresPlace) -> None:
    first, second = Replica(place, "first"), Replica(place, "second")
    with ExitStack() as jobs:
        with first.role:
            jobs.enter_context(second.role)
            assert_active(first, second)
        eventually(lambda: assert_active(second, first), within_s=20)
    assert (first.settled, second.settled) == (["first"], ["second"])


def test_the_active_job_gives_the_lease_to_one_that_is_ahead(place: PostgresPlace) -> None:
    first, second = Replica(place, "first"), Replica(place, "second")
    with first.role, second.role:
        assert_active(first, second)
        second.state = JobReport(evaluated_ms=2 * MINUTE_MS, sinks_fail=False)
        eventually(lambda: assert_active(second, first), within_s=20)
    assert first.settled == ["first"]


def test_the_active_job_gives_the_lease_up_when_its_sinks_fail_but_both_failing_changes_nothing(
    place: PostgresPlace,
) -> None:
    first, second = Replica(place, "first"), Replica(place, "second")
    failing = JobReport(evaluated_ms=MINUTE_MS, sinks_fail=True)
    with first.role, second.role:
        assert_active(first, second)
        first.state = failing
        eventually(lambda: assert_active(second, first), within_s=20)
        second.state = failing
        reports = second.reports
        eventually(lambda: second.reports > reports + 10, within_s=20)
        assert_active(second, first)


def test_a_job_whose_sinks_failed_tries_again_when_those_of_the_other_one_fail(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two faults, one after the other: the first job may reach its sinks again."""
    monkeypatch.setattr(active_role, "_FAILED_S", 1.0)
    monkeypatch.setattr(active_role, "_PAUSE_S", 1.0)
    first, second = Replica(place, "first"), Replica(place, "second")
    with first.role, second.role:
        first.state = JobReport(evaluated_ms=MINUTE_MS, sinks_fail=True)
        eventually(lambda: assert_active(second, first), within_s=20)
        first.state, second.state = second.state, first.state
        eventually(lambda: assert_active(first, second), within_s=20)


def test_a_job_without_its_store_is_neither_active_nor_a_standby(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(active_role, "RENEW_S", 0.1)
    monkeypatch.setattr("connectors.store.lease.LEASE_S", 1.0)
    monkeypatch.setattr(active_role, "_ANSWERS_S", 1.0)
    with PostgresServer() as server:
        place = server.database("one")
        job_database(place).create()
        job = Replica(place, "first")
        with job.role:
            server.stop()
            eventually(lambda: not (job.role.is_active or job.role.is_standby or job.role.store_answers), within_s=20)
            server.start()
            eventually(lambda: job.role.is_active and job.role.store_answers, within_s=20)
        close_connections()


@pytest.mark.parametrize(
    ("ahead_ms", "mine_fails", "other_fails", "better"),
    [
        (0, False, False, False),
        (20_000, False, False, False),
        (20_001, False, False, True),
        (20_001, False, True, False),
        (0, True, False, True),
        (0, True, True, False),
        (-9_999, True, False, True),
        (-20_001, True, False, True),
        (20_001, True, True, True),
    ],
)
def test_which_of_two_jobs_is_better(ahead_ms: int, mine_fails: bool, other_fails: bool, better: bool) -> None:
    mine = JobReport(evaluated_ms=MINUTE_MS, sinks_fail=mine_fails)
    other = JobReport(evaluated_ms=MINUTE_MS + ahead_ms, sinks_fail=other_fails)
    assert is_better(other, mine) == better
