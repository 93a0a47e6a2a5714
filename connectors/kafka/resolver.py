"""Names to addresses as one cluster's configuration wants them: `resolve`, then the hosts file, then DNS.

The verdict matters more than the address, because an alert hangs on it. Measured with glibc 2.36 against a name
server of our own: NXDOMAIN gives EAI_NONAME and an answer without addresses EAI_NODATA: *the name is gone*.
SERVFAIL, REFUSED, NOTIMP, a silent server (after 10 s) and nobody at all give EAI_AGAIN: *the resolver failed*,
which says nothing of the name.
"""

import ipaddress
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from connectors.errors import UnseenError
from connectors.kafka.event_loop import Loop, Outcome
from rules.model.monitoring import Reason

Lookup = Callable[[str], tuple[str, ...]]
_GONE = (socket.EAI_NONAME, socket.EAI_NODATA)


def lookup_dns(host: str) -> tuple[str, ...]:
    """Ask the system's resolver. Blocks.

    Returns:
        The host's addresses, each once, in the resolver's order.

    Raises:
        UnseenError: UNRESOLVABLE when there is no such name, RESOLVER_FAILED when nobody could tell.
    """
    if _plain(host).endswith(".invalid"):
        # RFC 6761, section 6.4: such a name never exists, and no server needs to be asked.
        raise UnseenError(Reason.UNRESOLVABLE, f"no such name: {host}")
    try:
        found = socket.getaddrinfo(host, None, socket.AF_UNSPEC, socket.SOCK_STREAM)
    except socket.gaierror as problem:
        if problem.errno in _GONE:
            raise UnseenError(Reason.UNRESOLVABLE, f"no such name: {host}") from problem
        raise UnseenError(Reason.RESOLVER_FAILED, f"{host}: {problem.strerror}") from problem
    except UnicodeError as problem:
        raise UnseenError(Reason.UNRESOLVABLE, f"no host can be named {host!r}") from problem
    except OSError as problem:
        raise UnseenError(Reason.RESOLVER_FAILED, f"{host}: {problem.strerror}") from problem
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


def read_hosts(path: Path, host: str) -> tuple[str, ...]:
    """The addresses a file in /etc/hosts format gives a name; empty when it does not hold the name.

    Raises:
        UnseenError: RESOLVER_FAILED, naming the file that cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        raise UnseenError(Reason.RESOLVER_FAILED, f"hosts file {path}: {problem.strerror}") from problem
    wanted = _plain(host)
    found = []
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        if _is_address(address) and wanted in map(_plain, names):
            found.append(address)
    return tuple(dict.fromkeys(found))


class Resolver:
    """One cluster's resolver. Every call looks again: no answer is kept."""

    def __init__(
        self,
        loop: Loop,
        *,
        resolve: Mapping[str, str],
        hosts_file: str | None,
        dns: Lookup = lookup_dns,
        timeout_s: float = 5.0,
    ) -> None:
        self._loop = loop
        self._overrides = {_plain(host): address for host, address in resolve.items()}
        self._hosts_file = None if hosts_file is None else Path(hosts_file)
        self._dns = dns
        self._timeout_s = timeout_s
        self._asking: dict[str, Outcome[tuple[str, ...]]] = {}

    async def addresses(self, host: str) -> tuple[str, ...]:
        """The addresses of a host, at least one.

        Raises:
            UnseenError: UNRESOLVABLE or RESOLVER_FAILED.
        """
        if _is_address(host):
            return (host,)
        override = self._overrides.get(_plain(host))
        if override is not None:
            return (override,)
        if self._hosts_file is not None and (listed := read_hosts(self._hosts_file, host)):
            return listed
        asked = self._asking.get(host)
        if asked is None or asked.done:
            # One thread a name: a dead resolver must not fill the pool.
            asked = self._asking[host] = self._loop.spawn(self._loop.in_thread(lambda: self._dns(host)))
        try:
            return await self._loop.within(asked, self._timeout_s)
        except TimeoutError as problem:
            detail = f"{host}: no answer from the resolver within {self._timeout_s:g} s"
            raise UnseenError(Reason.RESOLVER_FAILED, detail) from problem


def _plain(host: str) -> str:
    return host.rstrip(".").lower()


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
