"""Two jobs that share a store and were given the same URI as their checkpoint."""

from collections.abc import Iterator

import pytest

from connectors.process.signals import SignalFlag
from connectors.store import lease as lease_module
from connectors.store.postgres import close_connections
from connectors.store.store_place import PostgresPlace
from connectors.store.tables import job_database
from streaming.job import checkpoint_lease
from streaming.job.checkpoint_lease import CheckpointLease
from streaming.pipeline.spark.errors import JobError
from tests.eventually import eventually
from tests.postgres_server import PostgresServer, needs_postgres

pytestmark = needs_postgres
URI = "s3a://bucket/kraftwatch"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def place(
    server: PostgresServer, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PostgresPlace]:
    monkeypatch.setattr(lease_module, "LEASE_S", 1.0)
    monkeypatch.setattr(checkpoint_lease, "RENEW_S", 0.1)
    place = server.database(f"a{abs(hash(request.node.name))}")
    job_database(place).create()
    yield place
    close_connections()


@pytest.fixture
def said() -> list[str]:
    return []


def lease(place: PostgresPlace, job: str, said: list[str], *, uri: str = URI, patience_s: float = 3) -> CheckpointLease:
    return CheckpointLease(job_database(place), job, uri, stop=SignalFlag(), say=said.append, patience_s=patience_s)


def test_the_second_job_is_refused_and_another_uri_is_free(place: PostgresPlace, said: list[str]) -> None:
    with lease(place, "first", said) as first:
        with pytest.raises(JobError, match=f"checkpoint {URI} is used by another job that shares the store: stop that"):
            lease(place, "second", said).__enter__()
        assert said == [f"another job used checkpoint {URI} a moment ago; waiting until it has ended"]
        with lease(place, "second", said, uri="s3a://bucket/standby"):
            first.require()
    with lease(place, "second", said, patience_s=0):
        pass


def test_a_restarted_job_has_its_own_lease_at_once(place: PostgresPlace, said: list[str]) -> None:
    """A killed job gives nothing up."""
    lease(place, "first", said)._lease.take()
    with lease(place, "first", said, patience_s=0):
        assert said == []


def test_a_job_that_was_stopped_too_long_ends_when_another_one_has_taken_its_checkpoint(
    place: PostgresPlace, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with lease(place, "first", said) as first:
        monkeypatch.setattr(first._lease, "renew", lambda: None)
        with lease(place, "second", said) as second:
            monkeypatch.undo()
            eventually(lambda: assert_refused(first), within_s=10)
            second.require()


def assert_refused(one: CheckpointLease) -> None:
    try:
        one.require()
    except JobError as problem:
        assert "now: this one was stopped" in str(problem)
        return
    raise AssertionError("it goes on")
