import socket
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from connectors.errors import ObservationError
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.resolver import Lookup, Resolver, lookup_dns
from rules.model.monitoring import Reason
from tests.unit.connectors.observation_failure import failure_of


def dns_with(names: Mapping[str, str]) -> Lookup:
    def lookup(host: str) -> tuple[str, ...]:
        if host not in names:
            raise ObservationError(Reason.UNRESOLVABLE, f"{host} does not resolve")
        return (names[host],)

    return lookup


def resolve(loop: EventLoop, resolver: Resolver, host: str) -> tuple[str, ...]:
    return loop.run(lambda: resolver.addresses(host))


def test_resolve_overrides_the_hosts_file_and_that_overrides_dns(loop: EventLoop, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("10.0.0.2 a.test b.test  # two names\n")
    dns = dns_with({"a.test": "10.0.0.3", "b.test": "10.0.0.3", "c.test": "10.0.0.3"})
    resolver = Resolver(loop, resolve={"A.test.": "10.0.0.1"}, hosts_file=str(hosts), dns=dns)

    assert resolve(loop, resolver, "a.test") == ("10.0.0.1",)
    assert resolve(loop, resolver, "B.TEST") == ("10.0.0.2",)
    assert resolve(loop, resolver, "c.test") == ("10.0.0.3",)


def test_hosts_file_is_read_at_each_lookup(loop: EventLoop, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("10.0.0.2 a.test\n::2 a.test\n")
    resolver = Resolver(loop, resolve={}, hosts_file=str(hosts), dns=dns_with({}))

    assert resolve(loop, resolver, "a.test") == ("10.0.0.2", "::2")
    hosts.write_text("")
    assert failure_of(lambda: resolve(loop, resolver, "a.test")).reason is Reason.UNRESOLVABLE


def test_unreadable_hosts_file_is_a_resolver_failure(loop: EventLoop, tmp_path: Path) -> None:
    resolver = Resolver(loop, resolve={}, hosts_file=str(tmp_path / "none"), dns=dns_with({"a.test": "10.0.0.1"}))

    failed = failure_of(lambda: resolve(loop, resolver, "a.test"))
    assert (failed.reason, "none" in failed.detail) == (Reason.RESOLVER_FAILED, True)


def test_address_needs_no_lookup(loop: EventLoop) -> None:
    resolver = Resolver(loop, resolve={}, hosts_file=None, dns=dns_with({}))

    assert resolve(loop, resolver, "192.0.2.7") == ("192.0.2.7",)
    assert resolve(loop, resolver, "2001:db8::7") == ("2001:db8::7",)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (socket.EAI_NONAME, Reason.UNRESOLVABLE),
        (socket.EAI_NODATA, Reason.UNRESOLVABLE),
        (socket.EAI_AGAIN, Reason.RESOLVER_FAILED),
        (socket.EAI_FAIL, Reason.RESOLVER_FAILED),
        (socket.EAI_SYSTEM, Reason.RESOLVER_FAILED),
    ],
)
def test_name_is_unresolvable_only_if_the_resolver_reports_it(
    monkeypatch: pytest.MonkeyPatch, code: int, reason: Reason
) -> None:
    def fail(*_: object) -> None:
        raise socket.gaierror(code, "error of glibc")

    monkeypatch.setattr(socket, "getaddrinfo", fail)

    assert failure_of(lambda: lookup_dns("a.test")).reason is reason


@pytest.mark.parametrize("host", ["a..test", "c1.kraftwatch.INVALID."])
def test_invalid_host_name_and_one_below_invalid_are_unresolvable_without_a_query(host: str) -> None:
    assert failure_of(lambda: lookup_dns(host)).reason is Reason.UNRESOLVABLE


def test_resolver_without_answer_times_out_and_delays_no_other_name(loop: EventLoop) -> None:
    answered = threading.Event()

    def never_answers(_: str) -> tuple[str, ...]:
        answered.wait(10)
        return ("10.0.0.1",)

    resolver = Resolver(loop, resolve={"b.test": "10.0.0.2"}, hosts_file=None, dns=never_answers, timeout_s=0.2)

    async def both() -> list[object]:
        waiting = loop.spawn(resolver.addresses("a.test"))
        other = await resolver.addresses("b.test")
        assert not waiting.done()
        try:
            return [other, await waiting]
        except ObservationError as problem:
            return [other, problem.reason]

    assert loop.run(both) == [("10.0.0.2",), Reason.RESOLVER_FAILED]
    answered.set()


def test_concurrent_lookups_of_one_name_share_one_query(loop: EventLoop) -> None:
    queried = []

    def slow(host: str) -> tuple[str, ...]:
        queried.append(host)
        threading.Event().wait(0.1)
        return ("10.0.0.1",)

    resolver = Resolver(loop, resolve={}, hosts_file=None, dns=slow)

    async def twice() -> list[tuple[str, ...]]:
        return await loop.gather(resolver.addresses("a.test") for _ in range(5))

    assert loop.run(twice) == [("10.0.0.1",)] * 5
    assert queried == ["a.test"]
