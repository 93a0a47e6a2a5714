"""The store on a PostgreSQL server: the same tables and results as in a file, and sentences for what fails."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from connectors.delivery.ledger import Ledger
from connectors.errors import LeaseLostError, StoreError, UnavailableStoreError
from connectors.settings.secret import Secret
from connectors.store.collection import Collection
from connectors.store.lease import JobReport, Lease
from connectors.store.postgres import close_connections
from connectors.store.store_place import PostgresPlace, check_url
from connectors.store.tables import job_database
from tests.postgres_server import PostgresServer, needs_postgres
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

pytestmark = needs_postgres
NUMBERS: TypeAdapter[int] = TypeAdapter(int)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_connections()


@pytest.fixture
def place(server: PostgresServer, request: pytest.FixtureRequest) -> PostgresPlace:
    return server.database(f"a{abs(hash(request.node.name))}")


def test_values_are_read_by_every_process_in_the_order_in_which_they_were_put(place: PostgresPlace) -> None:
    numbers = Collection(job_database(place), "numbers", NUMBERS)
    numbers.put({"b": 1, "a": 2})
    Collection(job_database(place), "numbers", NUMBERS, keep=3).put({"c": 3, "b": 4, "d": 5})
    reader = Collection(job_database(place, read_only=True), "numbers", NUMBERS)
    assert [*reader.items().items()] == [("c", 3), ("b", 4), ("d", 5)]
    assert (reader.get("c"), len(reader)) == (3, 3)


def test_writers_of_the_same_names_wait_for_each_other(place: PostgresPlace) -> None:
    """Two jobs that start together store the same cluster ids; each in its own order, beside what others remove."""
    names = [*"abcdef"]
    Collection(job_database(place), "numbers", NUMBERS).put({"f": -1})

    def put(at: int) -> None:
        stored = Collection(job_database(place), "numbers", NUMBERS, keep=4)
        stored.put(dict.fromkeys(names[at % 6 :] + names[: at % 3], at), without=names[at % 4 :: 2])

    with ThreadPoolExecutor(10) as pool:
        failed = [problem for one in [pool.submit(put, at) for at in range(50)] if (problem := one.exception())]
    assert failed == []
    assert len(Collection(job_database(place), "numbers", NUMBERS)) == 4


def test_reader_of_the_documents_reads_what_the_job_stores(server: PostgresServer) -> None:
    page = (Path(__file__).parents[4] / "docs" / "operations.md").read_text()
    (block,) = re.findall(r"```\n(CREATE ROLE kraftwatch .*?)```", page, re.DOTALL)
    server.script(block)
    job = server.place("kraftwatch", "kraftwatch")

    Collection(job_database(job), "numbers", NUMBERS).put({"a": 1})

    reader = job_database(server.place("kraftwatch", "kraftwatch_reader"), read_only=True)
    assert [*Collection(reader, "numbers", NUMBERS).items().items()] == [("a", 1)]


def test_a_command_that_only_reads_creates_no_tables(place: PostgresPlace) -> None:
    with pytest.raises(StoreError, match="it lacks tables of this version of kraftwatch: start its job once"):
        Collection(job_database(place, read_only=True), "numbers", NUMBERS).items()


def test_a_server_that_stops_is_unavailable_and_used_again_when_it_is_back() -> None:
    with PostgresServer() as server:
        numbers = Collection(job_database(server.database("one")), "numbers", NUMBERS)
        numbers.put({"a": 1})
        server.stop()
        with pytest.raises(UnavailableStoreError, match=rf"the store 127.0.0.1:{server.port}/one does not answer"):
            numbers.put({"a": 2})
        server.start()
        numbers.put({"b": 2})
        assert numbers.items() == {"a": 1, "b": 2}


def test_what_no_later_attempt_changes_is_not_unavailable(server: PostgresServer) -> None:
    for place, reason in (
        (server.place("nowhere"), "the database does not exist"),
        (server.place("postgres", user="nobody"), "it refuses the login"),
    ):
        with pytest.raises(StoreError, match=reason) as raised:
            job_database(place).create()
        assert not isinstance(raised.value, UnavailableStoreError)


def test_a_server_that_is_read_only_now_may_become_the_primary(server: PostgresServer, place: PostgresPlace) -> None:
    database = job_database(place)
    database.create()
    server.sql(f"ALTER DATABASE {name_of(place)} SET default_transaction_read_only = on")
    close_connections()
    with pytest.raises(UnavailableStoreError, match="it is read-only, a standby server"):
        Collection(database, "numbers", NUMBERS).put({"a": 1})
    server.sql(f"ALTER DATABASE {name_of(place)} RESET default_transaction_read_only")
    close_connections()
    Collection(database, "numbers", NUMBERS).put({"a": 1})


def test_a_job_that_was_stopped_in_a_transaction_tries_again(place: PostgresPlace) -> None:
    database = job_database(place)
    with pytest.raises(UnavailableStoreError, match="idle-in-transaction"), database.transaction() as connection:
        connection.exec_driver_sql("SET idle_in_transaction_session_timeout = '10ms'")
        time.sleep(0.2)
        connection.exec_driver_sql("SELECT 1")
    Collection(database, "numbers", NUMBERS).put({"a": 1})


def test_a_user_without_privileges_is_told_so(server: PostgresServer, place: PostgresPlace) -> None:
    job_database(place).create()
    name = name_of(place)
    server.sql("DROP ROLE IF EXISTS reader")
    server.sql("CREATE ROLE reader LOGIN")
    reader = Collection(job_database(server.place(name, user="reader"), read_only=True), "numbers", NUMBERS)
    with pytest.raises(StoreError, match="grant it the privileges"):
        reader.items()
    server.sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", name)
    assert reader.items() == {}


def test_a_server_without_tls_is_refused_by_default(server: PostgresServer) -> None:
    with pytest.raises(StoreError, match="does not support SSL"):
        job_database(server.place("postgres", options="")).create()


def test_a_password_file_that_cannot_be_read_now_is_waited_for(server: PostgresServer, tmp_path: Path) -> None:
    file = tmp_path / "password"
    place = PostgresPlace(url=server.place("postgres").url, password=Secret(file=file))
    for _ in range(20):
        with pytest.raises(UnavailableStoreError, match=f"cannot be used: cannot read {file}"):
            job_database(place).create()
    file.write_text("any\n")
    job_database(place).create()


def test_the_password_is_in_no_text(server: PostgresServer) -> None:
    secret = Secret(text="correct horse")
    place = PostgresPlace(url=f"postgresql://owner@127.0.0.1:{server.port}/nowhere?sslmode=disable", password=secret)
    with pytest.raises(StoreError) as raised:
        job_database(place).create()
    assert "horse" not in f"{raised.value} {place!r} {place}"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("mysql://db/kraftwatch", "should begin with postgresql://"),
        ("postgresql://me:secret@db/kraftwatch", "must not contain a password"),
        ("postgresql://db", "names no database"),
        ("postgresql://db/kraftwatch?sslmod=disable", "unknown option sslmod"),
    ],
)
def test_an_invalid_url_is_refused_in_one_sentence(url: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as raised:
        check_url(url)
    assert "secret" not in str(raised.value)


def lease_of(place: PostgresPlace, job: str) -> Lease:
    database = job_database(place)
    database.create()
    return Lease(database, job)


@pytest.fixture
def first(place: PostgresPlace) -> Lease:
    """The lease as a job sees it that has taken it."""
    lease = lease_of(place, "first")
    assert lease.take()
    return lease


@pytest.fixture
def second(place: PostgresPlace) -> Lease:
    """The lease as another job sees it."""
    return lease_of(place, "second")


def test_one_of_two_jobs_has_the_lease_until_it_gives_it_up(first: Lease, second: Lease) -> None:
    assert (second.take(), first.held, second.held) == (False, True, False)
    first.renew()
    first.give_up()
    assert (second.take(), first.held, second.held) == (True, False, True)
    with pytest.raises(LeaseLostError):
        first.renew()


@pytest.mark.parametrize("expires_at", ["now() - interval '1 second'", "expires_at + interval '5 minutes'"])
def test_a_lease_that_expired_or_that_a_faster_clock_wrote_is_taken_and_its_former_owner_can_write_nothing(
    server: PostgresServer, place: PostgresPlace, first: Lease, second: Lease, expires_at: str
) -> None:
    """Of the second, a server took over whose clock is five minutes behind, and the owner died with the one before."""
    ledger = Ledger(job_database(place), first)
    ledger.add_sink("slack")
    server.sql(f"UPDATE leases SET expires_at = {expires_at}", name_of(place))
    assert second.take()
    for write in (
        first.renew,
        lambda: ledger.record([alert("quorum")], NOON_MS),
        lambda: ledger.begin_calls({"slack": []}),
    ):
        with pytest.raises(LeaseLostError):
            write()
    assert Ledger(job_database(place), second).history() == ()


def test_an_expired_lease_that_nobody_took_is_renewed(
    server: PostgresServer, place: PostgresPlace, first: Lease, second: Lease
) -> None:
    server.sql("UPDATE leases SET expires_at = now() - interval '1 second'", name_of(place))
    first.renew()
    assert not second.take()


def test_a_restarted_job_takes_its_own_lease_at_once_with_a_new_token(place: PostgresPlace, first: Lease) -> None:
    assert lease_of(place, "first").take()
    with pytest.raises(LeaseLostError):
        first.renew()


def test_of_ten_jobs_that_take_the_lease_at_once_one_has_it(place: PostgresPlace) -> None:
    leases = [lease_of(place, f"job {number}") for number in range(10)]
    with ThreadPoolExecutor(10) as pool:
        assert sorted(pool.map(Lease.take, leases)) == [False] * 9 + [True]


def test_jobs_that_run_see_each_other(
    server: PostgresServer, place: PostgresPlace, first: Lease, second: Lease
) -> None:
    behind, ahead = JobReport(evaluated_ms=1, sinks_fail=True), JobReport(evaluated_ms=2, sinks_fail=False)
    assert first.report(behind) == []
    assert second.report(ahead) == [behind]
    assert first.report(behind) == [ahead]
    server.sql("UPDATE jobs SET seen_at = now() - interval '1 minute' WHERE id = 'second'", name_of(place))
    assert first.report(behind) == []


def name_of(place: PostgresPlace) -> str:
    return str(place).rpartition("/")[2]
