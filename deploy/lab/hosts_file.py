"""The lab's own name service: a hosts file that the JVMs, and a monitor, read again at each lookup."""

from pathlib import Path

DOMAIN = "kraftwatch.invalid"
"""`.invalid` is promised never to exist in DNS (RFC 6761, section 6.4), so a name that leaves the hosts file is
answered as gone (NXDOMAIN) wherever there is a DNS at all, and never by somebody's real machine."""

LOOPBACK = "127.0.0.1"


class Names:
    """Which names exist now; all lead to 127.0.0.1. The file is replaced whole, never half-written."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._names: set[str] = set()
        self._write()

    @property
    def known(self) -> frozenset[str]:
        """The names that resolve now."""
        return frozenset(self._names)

    def add(self, *names: str) -> None:
        """Makes these names resolve (again)."""
        self._names.update(names)
        self._write()

    def drop(self, *names: str) -> None:
        """Makes these names vanish; those that are not there stay away."""
        self._names.difference_update(names)
        self._write()

    def _write(self) -> None:
        new = self.file.with_name(self.file.name + ".new")
        lines = [f"{LOOPBACK} localhost", *(f"{LOOPBACK} {name}" for name in sorted(self._names))]
        new.write_text("\n".join(lines) + "\n", encoding="utf-8")
        new.replace(self.file)
