import socket
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from connectors.errors import UnseenError
from connectors.kafka.event_loop import Loop
from connectors.kafka.resolver import Lookup, Resolver, lookup_dns
from rules.model.monitoring import Reason


def known(names: Mapping[str, str]) -> Lookup:
    def look(host: str) -> tuple[str, ...]:
        if host not in names:
            raise UnseenError(Reason.UNRESOLVABLE, f"no such name: {host}")
        return (names[host],)

    return look


def ask(loop: Loop, resolver: Resolver, host: str) -> tuple[str, ...]:
    return loop.run(lambda: resolver.addresses(host))


def test_resolve_wins_over_the_hosts_file_and_that_over_dns(loop: Loop, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("10.0.0.2 a.test b.test  # two names\n")
    dns = known({"a.test": "10.0.0.3", "b.test": "10.0.0.3", "c.test": "10.0.0.3"})
    resolver = Resolver(loop, resolve={"A.test.": "10.0.0.1"}, hosts_file=str(hosts), dns=dns)

    assert ask(loop, resolver, "a.test") == ("10.0.0.1",)
    assert ask(loop, resolver, "B.TEST") == ("10.0.0.2",)
    assert ask(loop, resolver, "c.test") == ("10.0.0.3",)


def test_the_hosts_file_is_read_at_each_look(loop: Loop, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("10.0.0.2 a.test\n::2 a.test\n")
    resolver = Resolver(loop, resolve={}, hosts_file=str(hosts), dns=known({}))

    assert ask(loop, resolver, "a.test") == ("10.0.0.2", "::2")
    hosts.write_text("")
    with pytest.raises(UnseenError) as gone:
        ask(loop, resolver, "a.test")
    assert gone.value.reason is Reason.UNRESOLVABLE


def test_a_hosts_file_that_cannot_be_read_counts_against_our_sight(loop: Loop, tmp_path: Path) -> None:
    resolver = Resolver(loop, resolve={}, hosts_file=str(tmp_path / "none"), dns=known({"a.test": "10.0.0.1"}))

    with pytest.raises(UnseenError, match="none") as failed:
        ask(loop, resolver, "a.test")
    assert failed.value.reason is Reason.RESOLVER_FAILED


def test_an_address_is_its_own_answer(loop: Loop) -> None:
    resolver = Resolver(loop, resolve={}, hosts_file=None, dns=known({}))

    assert ask(loop, resolver, "192.0.2.7") == ("192.0.2.7",)
    assert ask(loop, resolver, "2001:db8::7") == ("2001:db8::7",)


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
def test_a_name_is_gone_only_when_the_resolver_says_so(
    monkeypatch: pytest.MonkeyPatch, code: int, reason: Reason
) -> None:
    def fail(*_: object) -> None:
        raise socket.gaierror(code, "as glibc says it")

    monkeypatch.setattr(socket, "getaddrinfo", fail)

    with pytest.raises(UnseenError) as problem:
        lookup_dns("a.test")
    assert problem.value.reason is reason


def test_the_system_resolver_knows_loopback() -> None:
    assert "127.0.0.1" in lookup_dns("localhost")


def test_a_label_that_no_host_can_have_is_a_name_that_does_not_exist() -> None:
    with pytest.raises(UnseenError) as problem:
        lookup_dns("a..test")
    assert problem.value.reason is Reason.UNRESOLVABLE


def test_a_silent_resolver_stops_nobody_else_and_is_given_up(loop: Loop) -> None:
    answered = threading.Event()

    def silent(_: str) -> tuple[str, ...]:
        answered.wait(10)
        return ("10.0.0.1",)

    resolver = Resolver(loop, resolve={"b.test": "10.0.0.2"}, hosts_file=None, dns=silent, timeout_s=0.2)

    async def both() -> list[object]:
        waiting = loop.spawn(resolver.addresses("a.test"))
        other = await resolver.addresses("b.test")
        assert not waiting.done
        try:
            return [other, await waiting.get()]
        except UnseenError as problem:
            return [other, problem.reason]

    assert loop.run(both) == [("10.0.0.2",), Reason.RESOLVER_FAILED]
    answered.set()


def test_a_name_that_is_being_asked_for_is_not_asked_for_again(loop: Loop) -> None:
    asked = []

    def slow(host: str) -> tuple[str, ...]:
        asked.append(host)
        threading.Event().wait(0.1)
        return ("10.0.0.1",)

    resolver = Resolver(loop, resolve={}, hosts_file=None, dns=slow)

    async def twice() -> list[tuple[str, ...]]:
        return await loop.gather(resolver.addresses("a.test") for _ in range(5))

    assert loop.run(twice) == [("10.0.0.1",)] * 5
    assert asked == ["a.test"]


def test_invalid_never_exists_and_nobody_is_asked() -> None:
    with pytest.raises(UnseenError) as problem:
        lookup_dns("c1.kraftwatch.INVALID.")

    assert problem.value.reason is Reason.UNRESOLVABLE


def test_a_dead_zone_holds_up_no_other_name(loop: Loop) -> None:
    """A recursive resolver that cannot reach a zone's servers takes seconds for each of its names, and only those."""
    release = threading.Event()

    def dns(host: str) -> tuple[str, ...]:
        if host.endswith(".dead"):
            release.wait(60)
        return ("10.0.0.1",)

    resolver = Resolver(loop, resolve={}, hosts_file=None, dns=dns, timeout_s=20)

    async def look() -> tuple[str, ...]:
        for number in range(20):
            loop.spawn(resolver.addresses(f"c{number}.dead"))
        await loop.sleep(0.1)
        return await resolver.addresses("c1.alive")

    try:
        assert loop.run(look) == ("10.0.0.1",)
    finally:
        release.set()
