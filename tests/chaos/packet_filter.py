"""Breaks single connections of a lab: each node reaches each other one at a loopback address of its own."""

import subprocess
from dataclasses import dataclass, field
from enum import StrEnum

MONITOR = 200
"""The number of the monitor among the nodes."""
_TABLE = "kraftwatch_chaos"


class Cut(StrEnum):
    """What happens to packets; nftables' words."""

    DROP = "drop"
    """They vanish: a new connection times out, an open one hangs."""
    RESET = "reject with tcp reset"
    """Connections are refused and closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenPath:
    """The path from one node to another is broken."""

    source: int
    target: int
    cut: Cut = Cut.DROP
    requests: bool = True
    """Whether requests are broken too, not answers alone."""
    new_only: bool = False
    """Whether only connections that are made meanwhile are broken: their first packet vanishes."""


def address(source: int, target: int) -> str:
    """Returns the address at which `source` reaches `target`."""
    return f"127.{source}.{target}.1"


@dataclass(slots=True)
class PacketFilter:
    """The paths of this network namespace, in which nothing else uses nftables."""

    paths: list[BrokenPath] = field(default_factory=list)
    """Those that are broken."""
    redirects: dict[tuple[str, int], str] = field(default_factory=dict)
    """Address and port whose new connections lead elsewhere, to HOST:PORT: `change` writes it."""

    def change(self, *paths: BrokenPath) -> None:
        """Breaks paths, until they are restored one by one."""
        self.paths += paths
        self._write()

    def restore(self, *paths: BrokenPath) -> None:
        """Restores paths that were changed by these values."""
        for path in paths:
            self.paths.remove(path)
        self._write()

    def _write(self) -> None:
        rules = [rule for path in self.paths for rule in _rules(path)]
        chain = ["chain output {", "type filter hook output priority -150; policy accept;", *rules, "}"]
        led = [f"ip daddr {place} tcp dport {port} dnat to {to}" for (place, port), to in self.redirects.items()]
        chain += ["chain led {", "type nat hook output priority -100; policy accept;", *led, "}"] if led else []
        table = [f"table ip {_TABLE}", f"delete table ip {_TABLE}", f"table ip {_TABLE} {{", *chain, "}", ""]
        subprocess.run(["nft", "-f", "-"], input="\n".join(table), text=True, check=True)


def _rules(path: BrokenPath) -> list[str]:
    place = address(path.source, path.target)
    if path.new_only:
        return [f"ip daddr {place} tcp flags & (syn | ack) == syn drop"]
    answers = (f"ip saddr {place}", f"ct original ip daddr {place} ct direction reply")
    # A reset is what the client gets, so it belongs to its requests.
    requests = [f"meta l4proto tcp ip daddr {place} {path.cut}"] if path.requests else []
    return [*requests, *(f"{each} drop" for each in answers if path.cut is Cut.DROP)]
