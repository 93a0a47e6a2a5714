"""Resolves host names for one cluster: first `resolve`, then the hosts file, then DNS.

The kind of failure decides whether an alert fires. Measured with glibc 2.36 against a test name server: NXDOMAIN gives
EAI_NONAME, an answer without addresses EAI_NODATA: *the name does not resolve* (UNRESOLVABLE). SERVFAIL, REFUSED,
NOTIMP, a name server that does not answer (after 10 s) and no name server at all give EAI_AGAIN: *the resolver failed*
(RESOLVER_FAILED), which does not show whether the name exists.
"""

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from connectors.errors import ObservationError
from connectors.kafka.error_classification import error_from_errno
from connectors.kafka.event_loop import EventLoop
from rules.model.monitoring import Reason

Lookup = Callable[[str], tuple[str, ...]]
_NAME_NOT_FOUND = (socket.EAI_NONAME, socket.EAI_NODATA)


def lookup_dns(host: str) -> tuple[str, ...]:
    """Returns a host's addresses without duplicates, in the order of the system's resolver. Blocks.

    Raises:
        ObservationError: UNRESOLVABLE if the name does not exist, RESOLVER_FAILED if the resolver failed.
    """
    if _normalized(host).endswith(".invalid"):
        # RFC 6761, section 6.4: a name below .invalid never exists; no name server is queried.
        raise ObservationError(Reason.UNRESOLVABLE, f"{host} does not resolve")
    try:
        results = socket.getaddrinfo(host, None, socket.AF_UNSPEC, socket.SOCK_STREAM)
    except socket.gaierror as problem:
        if problem.errno in _NAME_NOT_FOUND:
            raise ObservationError(Reason.UNRESOLVABLE, f"{host} does not resolve") from problem
        raise ObservationError(Reason.RESOLVER_FAILED, f"{host}: {problem.strerror}") from problem
    except UnicodeError as problem:
        raise ObservationError(Reason.UNRESOLVABLE, f"{host!r} is not a valid host name") from problem
    except OSError as problem:
        if problem.errno in (errno.EMFILE, errno.ENFILE):
            raise error_from_errno(problem.errno, host) from problem
        raise ObservationError(Reason.RESOLVER_FAILED, f"{host}: {problem.strerror}") from problem
    return tuple(dict.fromkeys(str(address[0]) for *_, address in results))


def read_hosts(path: Path, host: str) -> tuple[str, ...]:
    """Returns the addresses of a host in a file in /etc/hosts format; empty if the file does not contain the host.

    Raises:
        ObservationError: RESOLVER_FAILED with the file's path, if the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        raise ObservationError(Reason.RESOLVER_FAILED, f"hosts file {path}: {problem.strerror}") from problem
    normalized = _normalized(host)
    addresses: list[str] = []
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        if is_address(address) and normalized in map(_normalized, names):
            addresses.append(address)
    return tuple(dict.fromkeys(addresses))


class Resolver:
    """The resolver of one cluster. Nothing is cached: every call resolves again."""

    def __init__(
        self,
        loop: EventLoop,
        *,
        resolve: Mapping[str, str],
        hosts_file: str | None,
        dns: Lookup = lookup_dns,
        timeout_s: float = 5.0,
    ) -> None:
        self._loop = loop
        self._overrides = {_normalized(host): address for host, address in resolve.items()}
        self._hosts_file = None if hosts_file is None else Path(hosts_file)
        self._dns = dns
        self._timeout_s = timeout_s
        self._lookups: dict[str, asyncio.Task[tuple[str, ...]]] = {}

    async def addresses(self, host: str) -> tuple[str, ...]:
        """Returns the addresses of a host, at least one.

        Raises:
            ObservationError: UNRESOLVABLE or RESOLVER_FAILED.
        """
        if is_address(host):
            return (host,)
        override = self._overrides.get(_normalized(host))
        if override is not None:
            return (override,)
        if self._hosts_file is not None and (listed := read_hosts(self._hosts_file, host)):
            return listed
        # At most one thread per name: a resolver that does not answer must not fill the thread pool.
        self._lookups = {name: one for name, one in self._lookups.items() if not one.done()}
        if host not in self._lookups:
            lookup = self._loop.run_in(self._loop.lookups.submit, lambda: self._dns(host))
            self._lookups[host] = self._loop.spawn(lookup)
        try:
            return await self._loop.wait_for(self._lookups[host], self._timeout_s)
        except TimeoutError as problem:
            detail = f"{host}: no answer from the resolver within {self._timeout_s:g} s"
            raise ObservationError(Reason.RESOLVER_FAILED, detail) from problem


def _normalized(host: str) -> str:
    return host.rstrip(".").lower()


def is_address(text: str) -> bool:
    """Returns whether this is an address and no name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
