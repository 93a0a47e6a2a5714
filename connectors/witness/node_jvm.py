"""The JVM of the node: its Java, its -D options and its environment, as this host's /proc shows them.

They decide how it dials as much as its properties file does: `jdk.net.hosts.file` is its resolver, `jdk.tls.*` its TLS,
`java.security.auth.login.config` its login. Secrets may be among them: none is logged.
"""

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from connectors.logdir.log_dir_files import properties_of
from connectors.witness.key_stores import content_of
from rules.model.identifiers import Millis

HOSTS_FILE = "jdk.net.hosts.file"
LOGIN_FILE = "java.security.auth.login.config"
_IPV4_ONLY = "java.net.preferIPv4Stack"
_SECURITY_FILE = "java.security.properties"
_PROCESSES = Path("/proc")
_OPTIONS = "KAFKA_OPTS"
_AGENTS = frozenset({"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"})
"""Each JVM reads them: an agent in them, with its port, is the node's alone."""
_DECIDING = ("javax.net.", "jdk.tls.", "jdk.security.", "jdk.net.", "java.net.", "java.security.", "com.sun.net.ssl.",
             "com.sun.security.", "sun.net.", "sun.security.", "jsse.")  # fmt: skip
_HARMLESS = frozenset(
    {
        *(HOSTS_FILE, LOGIN_FILE, _IPV4_ONLY, "java.net.preferIPv6Addresses"),
        *("java.security.egd", "java.security.manager", "javax.net.debug", "sun.security.krb5.debug"),
        *("java.security.krb5.conf", "java.security.krb5.realm", "java.security.krb5.kdc"),
        *("jdk.tls.ephemeralDHKeySize", "jdk.tls.rejectClientInitiatedRenegotiation"),
    }
)
"""What is done as the node does, is of a server alone, or decides only what Java alone can do."""
_CACHES = "networkaddress.cache."


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeJvm:
    """How the JVM of a node was started."""

    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Its -D options."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Its environment, without what would start an agent twice."""
    java: Path | None = None
    """Its Java."""
    since_ms: Millis | None = None
    """When its process began, by the clock of this host; None: no such process is seen."""
    unknown: str = ""
    """Why it is not known how it dials, and what to do; empty if it is."""

    @property
    def keytool(self) -> Path | None:
        """The keytool of the same Java, else of JAVA_HOME or the PATH."""
        return self.program("keytool")

    def program(self, name: str) -> Path | None:
        """Returns a program of the node's Java, else of JAVA_HOME or the PATH."""
        homes = [] if self.java is None else [self.java.parent]
        homes += [Path(home) / "bin" for home in filter(None, [self.environment.get("JAVA_HOME")])]
        found = shutil.which(name, path=os.pathsep.join(map(str, homes))) if homes else None
        found = found or shutil.which(name)
        return None if found is None else Path(found)

    def resolves(self, host: str) -> bool:
        """Returns whether its hosts file, if it has one, has this name: then Java knows no other (as it is written)."""
        if HOSTS_FILE not in self.settings:
            return True
        with suppress(OSError):
            lines = Path(self.settings[HOSTS_FILE]).read_text(encoding="utf-8", errors="replace").splitlines()
            return any(host in line.partition("#")[0].split()[1:] for line in lines)
        return False

    @property
    def ipv4_only(self) -> bool:
        """Whether it dials no IPv6 address."""
        return self.settings.get(_IPV4_ONLY, "").lower() == "true"

    @property
    def unlike(self) -> str:
        """Why only Java can dial as this JVM does; empty if its options decide nothing that kraftwatch does not do."""
        found = [
            name
            for name, value in self.settings.items()
            if name.startswith(_DECIDING) and name not in _HARMLESS and not _is_cache(name, value)
        ]
        if not found:
            return ""
        return f"the node's JVM has -D{min(found)}, which decides how it dials: give --kafka DIR, Kafka's folder"


def _is_cache(name: str, value: str) -> bool:
    """Returns whether an option changes only how long resolved names are kept."""
    if name.startswith("sun.net.inetaddr."):
        return True
    file = Path(value.removeprefix("="))
    return name == _SECURITY_FILE and file.is_file() and all(
        one.startswith(_CACHES) for one in properties_of(content_of(file))
    )  # fmt: skip


def node_jvm(properties: Path) -> NodeJvm:
    """Returns the JVM that runs with this properties file.

    Without such a process, or without the permission to read of it, its -D options are those of KAFKA_OPTS.
    """
    for process in _processes():
        try:
            if process.joinpath("exe").resolve().name == "java" and _runs(process, properties):
                return _read(process)
        except OSError:
            # It has ended, or it is another user's.
            continue
    environment = _without_agents(os.environ)
    if _OPTIONS in os.environ:
        return NodeJvm(settings=_settings(shlex.split(os.environ[_OPTIONS])), environment=environment)
    return NodeJvm(
        environment=environment,
        unknown="no process that kraftwatch sees runs with this file, so the options of the node's JVM are not known: "
        "run it where the node runs, as its user, or set KAFKA_OPTS to them (empty if there are none)",
    )


def _processes() -> Iterator[Path]:
    return (each for each in _PROCESSES.iterdir() if each.name.isdigit()) if _PROCESSES.is_dir() else iter(())


def _words(file: Path) -> list[str]:
    return [one for one in file.read_bytes().decode("utf-8", "surrogateescape").split("\0") if one]


def _runs(process: Path, properties: Path) -> bool:
    """Returns whether one of its arguments is this file: Kafka's is the first one after its class."""
    # A path of the process is one in its root, which may be that of a container.
    root, folder = process / "root", (process / "cwd").readlink()
    named = (root / str(folder / one).lstrip("/") for one in _words(process / "cmdline") if one.endswith(".properties"))
    return any(file.is_file() and file.samefile(properties) for file in named)


def _network(process: Path) -> Path | None:
    try:
        return process.joinpath("ns", "net").readlink()
    except OSError:
        return None


def _read(process: Path) -> NodeJvm:
    pairs = (one.partition("=") for one in _words(process / "environ"))
    environment = {name: value for name, _, value in pairs}
    in_environment = (environment.get(name, "") for name in sorted(_AGENTS))
    words = [*(word for text in in_environment for word in shlex.split(text)), *_words(process / "cmdline")]
    apart = _network(process) != _network(_PROCESSES / "self")
    return NodeJvm(
        settings=_settings(words),
        environment=_without_agents(environment),
        java=process.joinpath("exe").resolve(),
        since_ms=_began_ms(process),
        unknown=f"the node runs in another network: run kraftwatch in that of process {process.name} (nsenter --target "
        f"{process.name} --net --mount)"
        if apart
        else "",
    )


def _began_ms(process: Path) -> Millis | None:
    """Returns when a process began: the 22nd value of its stat is in clock ticks since the host started (proc(5))."""
    with suppress(OSError, ValueError, IndexError):
        lines = (_PROCESSES / "stat").read_text(encoding="utf-8").splitlines()
        (booted_s,) = (int(line.split()[1]) for line in lines if line.startswith("btime "))
        # The second value is the name of the program, in parentheses, which may contain spaces.
        ticks = int((process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19])
        return Millis(booted_s * 1_000 + ticks * 1_000 // os.sysconf("SC_CLK_TCK"))
    return None


def _settings(words: list[str]) -> Mapping[str, str]:
    pairs = (word.removeprefix("-D").partition("=") for word in words if word.startswith("-D"))
    return {name: value for name, _, value in pairs}


def _without_agents(environment: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in environment.items() if name not in _AGENTS}
