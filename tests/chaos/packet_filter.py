"""Breaks and slows single connections of a lab: each node reaches each other one at a loopback address of its own."""

import subprocess
import sys
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowPath:
    """The path from one node to another is slow in both directions."""

    source: int
    target: int
    loss_percent: int = 0
    """How many packets are lost, by chance."""
    bytes_per_s: int = 0
    """Packets beyond are lost; 0: all pass."""
    delay_ms: int = 0
    """New connections lead through a proxy that passes on what it reads after this time."""


def address(source: int, target: int) -> str:
    """Returns the address at which `source` reaches `target`."""
    return f"127.{source}.{target}.1"


@dataclass(slots=True)
class PacketFilter:
    """The paths of this network namespace, in which nothing else uses nftables."""

    paths: list[BrokenPath | SlowPath] = field(default_factory=list)
    """Those that are broken or slow."""
    _proxies: dict[int, tuple["subprocess.Popen[bytes]", int]] = field(default_factory=dict)
    """The proxy of each delay, and its port."""

    def change(self, *paths: BrokenPath | SlowPath) -> None:
        """Breaks or slows paths, until they are restored one by one."""
        self.paths += paths
        self._write()

    def restore(self, *paths: BrokenPath | SlowPath) -> None:
        """Restores paths that were changed by these values."""
        for path in paths:
            self.paths.remove(path)
        self._write()
        for unused in {*self._proxies} - {each.delay_ms for each in self.paths if isinstance(each, SlowPath)}:
            proxy, _ = self._proxies.pop(unused)
            proxy.kill()
            proxy.wait()

    def _write(self) -> None:
        rules = [rule for path in self.paths for rule in self._rules(path)]
        delays = [rule for path in self.paths if isinstance(path, SlowPath) for rule in self._delays(path)]
        # Before addresses are translated.
        chain = ["chain output {", "type filter hook output priority -150; policy accept;", *rules, "}"]
        delaying = ["chain delays {", "type nat hook output priority -100; policy accept;", *delays, "}"]
        table = [f"table ip {_TABLE}", f"delete table ip {_TABLE}", f"table ip {_TABLE} {{", *chain, *delaying, "}", ""]
        subprocess.run(["nft", "-f", "-"], input="\n".join(table), text=True, check=True)

    def _rules(self, path: BrokenPath | SlowPath) -> list[str]:
        place = address(path.source, path.target)
        answers = (f"ip saddr {place}", f"ct original ip daddr {place} ct direction reply")
        if isinstance(path, BrokenPath):
            # A reset is what the client gets, so it belongs to its requests.
            requests = [f"meta l4proto tcp ip daddr {place} {path.cut}"] if path.requests else []
            return [*requests, *(f"{each} drop" for each in answers if path.cut is Cut.DROP)]
        both = (f"ip daddr {place}", f"ip saddr {place}")
        loss = [f"{each} numgen random mod 100 < {path.loss_percent} drop" for each in both if path.loss_percent]
        burst = max(path.bytes_per_s, 65_536)  # A loopback packet may have 64 kB.
        limit = f"limit rate over {path.bytes_per_s} bytes/second burst {burst} bytes drop"
        return [*loss, *(f"{each} {limit}" for each in both if path.bytes_per_s)]

    def _delays(self, path: SlowPath) -> list[str]:
        if not path.delay_ms:
            return []
        if path.delay_ms not in self._proxies:
            command = [sys.executable, "-m", "tests.chaos.delaying_proxy", str(path.delay_ms)]
            proxy = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert proxy.stdout is not None
            self._proxies[path.delay_ms] = (proxy, int(proxy.stdout.readline()))
        port = self._proxies[path.delay_ms][1]
        return [f"meta l4proto tcp ip daddr {address(path.source, path.target)} dnat to 127.0.0.1:{port}"]
