"""Cuts single connections of a lab: each node reaches each other one at a loopback address of its own, by nftables."""

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
    """The path from one node to another is broken, for requests, for answers or for both."""

    source: int
    target: int
    cut: Cut = Cut.DROP
    requests: bool = True
    answers: bool = True


def address(source: int, target: int) -> str:
    """Returns the address at which `source` reaches `target`."""
    return f"127.{source}.{target}.1"


@dataclass(slots=True)
class PacketFilter:
    """The broken paths of this network namespace, in which nothing else uses nftables."""

    broken: list[BrokenPath] = field(default_factory=list)

    def break_paths(self, *paths: BrokenPath) -> None:
        """Breaks paths, until they are restored one by one."""
        self.broken += paths
        self._write()

    def restore(self, *paths: BrokenPath) -> None:
        """Restores paths that were broken by these values."""
        for path in paths:
            self.broken.remove(path)
        self._write()

    def _write(self) -> None:
        rules = [rule for path in self.broken for rule in _rules(path)]
        chain = "type filter hook output priority 0; policy accept;"
        text = f"table ip {_TABLE}\ndelete table ip {_TABLE}\ntable ip {_TABLE} {{\nchain output {{\n{chain}\n"
        subprocess.run(["nft", "-f", "-"], input=text + "\n".join(rules) + "\n}\n}\n", text=True, check=True)


def _rules(path: BrokenPath) -> list[str]:
    place = address(path.source, path.target)
    # A reset is what the client gets, so it belongs to its requests.
    requests = [f"meta l4proto tcp ip daddr {place} {path.cut}"] if path.requests else []
    return [*requests, *([f"ip saddr {place} drop"] if path.answers and path.cut is Cut.DROP else [])]
