"""The lab's name service: a hosts file that the JVMs and the monitor read at each lookup."""

from pathlib import Path

DOMAIN = "kraftwatch.invalid"
"""`.invalid` never exists in DNS (RFC 6761, section 6.4). A name that is removed from the hosts file therefore does
not resolve (NXDOMAIN) wherever there is a DNS, and never resolves to a real machine."""

LOOPBACK = "127.0.0.1"


class HostsFile:
    """The names that resolve now, all to 127.0.0.1. Each change replaces the whole file atomically."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._names: set[str] = set()
        self._write()

    @property
    def known(self) -> frozenset[str]:
        """The names that resolve now."""
        return frozenset(self._names)

    def add(self, *names: str) -> None:
        """Makes these names resolve."""
        self._names.update(names)
        self._write()

    def drop(self, *names: str) -> None:
        """Removes these names; ignores a name that is not in the file."""
        self._names.difference_update(names)
        self._write()

    def _write(self) -> None:
        new = self.file.with_name(self.file.name + ".new")
        lines = [f"{LOOPBACK} localhost", *(f"{LOOPBACK} {name}" for name in sorted(self._names))]
        new.write_text("\n".join(lines) + "\n", encoding="utf-8")
        new.replace(self.file)
