"""Kafka's jars from Maven Central, fetched once with the Ivy that pyspark contains, kept in the user's cache."""

import fcntl
import importlib.util
import os
import pwd
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from deploy.lab.child_process import leashed
from deploy.lab.jar_checksums import LOCK, pins, unpinned
from deploy.lab.lab_errors import LabError

KAFKA_VERSION = "4.3.1"
"""The Kafka that the lab runs unless told otherwise."""

_LOG4J = "2.24.3"
"""What Kafka 4.0 is shipped with, and its modules do not ask for."""
# Ivy's ibiblio resolver knows Maven Central by itself. A cache of its own: a half-filled ~/.m2 breaks it.
_SETTINGS = """<ivysettings>
  <property name="ivy.maven.lookup.sources" value="false"/>
  <property name="ivy.maven.lookup.javadoc" value="false"/>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
# kafka-tools asks for Connect's runtime, which brings a web server: half of all modules, and no tool of ours needs it.
_MODULE = """<ivy-module version="2.0">
  <info organisation="lab" module="lab"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    {dependencies}
    <exclude org="org.apache.kafka" module="connect-runtime" matcher="exact" conf="*"/>
  </dependencies>
</ivy-module>
"""
_DEPENDENCY = '<dependency org="{org}" name="{name}" rev="{rev}" transitive="{transitive}" conf="default->default"/>'
_FOUND = re.compile(r"^\s*found (?P<module>\S+#\S+)")
_LOADED = re.compile(r"\[SUCCESSFUL ?\]\s+(?P<module>[^!\s]+)")
_PROBLEM = re.compile(r"(UNRESOLVED DEPENDENCY|unresolved dependency|not found|FAILED|Server access [eE]rror)")

Dependency = tuple[str, str, str, bool]
"""Organisation, name, revision, and whether what it needs is wanted too."""


def cache_folder() -> Path:
    """`kraftwatch/kafka` in $XDG_CACHE_HOME or, without that, in the user's `.cache`."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if Path(named).is_absolute():
        return Path(named) / "kraftwatch" / "kafka"
    home = os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    return Path(home) / ".cache" / "kraftwatch" / "kafka"


def kafka_jars(version: str = KAFKA_VERSION, *, cache: Path | None = None) -> Path:
    """The folder with the jars of Kafka's broker, controller and tools, fetched if it is not there yet.

    A fetch takes about 40 s and 45 MB, and tells its progress on stderr. Several processes may ask at once:
    one fetches, the others wait. The folder appears under its name only when it is whole.

    Raises:
        LabError: the jars could not be fetched, with Ivy's own words, or one is not the file that jars.lock pins.
    """
    cache = cache or cache_folder()
    jars = cache / version
    if jars.is_dir():
        return jars
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / f".{version}.lock"):
        if not jars.is_dir():
            # Only the holder of the lock makes these: what is here was left by one that died.
            for left in cache.glob(f".{version}.part-*"):
                shutil.rmtree(left, ignore_errors=True)
            part = Path(tempfile.mkdtemp(prefix=f".{version}.part-", dir=cache))
            try:
                _fetch(version, part).rename(jars)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return jars


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch(version: str, folder: Path) -> Path:
    """Everything into `folder`/jars."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    if not console.is_terminal:
        console.print(f"Fetching Kafka {version} from Maven Central (45 MB, some 40 s) ...", highlight=False)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        telling = _Telling(progress, version)
        kafka = [("org.apache.kafka", name, version, True) for name in ("kafka_2.13", "kafka-tools")]
        _ivy(kafka, folder, telling)
        logger = _logger(folder / "jars")
        if logger:
            _ivy([logger], folder, telling)
    missing = [name for name in ("kafka_2.13", "kafka-tools") if not (folder / f"jars/{name}-{version}.jar").exists()]
    if missing:
        raise LabError(f"Maven Central gave no {' and no '.join(missing)} {version}: is that a released Kafka?")
    count = sum(1 for _ in (folder / "jars").iterdir())
    new = unpinned(folder / "jars", pins())
    told = f", {len(new)} of them not pinned by {LOCK.name}, such as {new[0]}" if new else ", each as pinned"
    console.print(f"Kafka {version}: {count} jars fetched{told}.", highlight=False)
    return folder / "jars"


def _logger(jars: Path) -> Dependency | None:
    """Without this binding of SLF4J to Log4j, of Log4j's own version, Kafka logs nothing at all.

    Kafka before 4.0 brings reload4j and its binding; 4.0 itself brings nothing.
    """
    for jar in jars.glob("log4j-core-*.jar"):
        version = jar.stem.removeprefix("log4j-core-")
        return ("org.apache.logging.log4j", "log4j-slf4j-impl", version, False)
    if any(jars.glob("slf4j-reload4j-*.jar")):
        return None
    return ("org.apache.logging.log4j", "log4j-slf4j-impl", _LOG4J, True)


class _Telling:
    """Turns Ivy's lines into one moving line."""

    def __init__(self, progress: Progress, version: str) -> None:
        self._progress = progress
        self._task = progress.add_task(f"Kafka {version} from Maven Central: looking up", total=None)
        self._version = version
        self._found = self._loaded = 0

    def line(self, text: str) -> None:
        if _FOUND.match(text):
            self._found += 1
        elif _LOADED.search(text):
            self._loaded += 1
        else:
            return
        told = f"Kafka {self._version} from Maven Central: {self._found} modules found, {self._loaded} jars fetched"
        self._progress.update(self._task, description=told)


def _ivy(dependencies: Sequence[Dependency], folder: Path, telling: _Telling) -> None:
    settings, module = folder / "ivysettings.xml", folder / "ivy.xml"
    settings.write_text(_SETTINGS.format(cache=folder / "ivy"), encoding="utf-8")
    listed = "".join(
        _DEPENDENCY.format(org=org, name=name, rev=rev, transitive=str(transitive).lower())
        for org, name, rev, transitive in dependencies
    )
    module.write_text(_MODULE.format(dependencies=listed), encoding="utf-8")
    # `bundle` too, or scala-logging, snappy and snakeyaml are silently missing.
    command = [
        "java", "-Xmx256m", f"-Divy.default.ivy.user.dir={folder / 'ivy'}", "-jar", str(_ivy_jar()),
        "-settings", str(settings), "-ivy", str(module), "-confs", "default",
        "-retrieve", f"{folder}/jars/[artifact]-[revision].[ext]", "-types", "jar", "bundle",
    ]  # fmt: skip
    lines: list[str] = []
    with leashed(command) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            telling.line(line)
        code = process.wait()
    if code != 0:
        said = [line.strip() for line in lines if _PROBLEM.search(line)] or lines[-5:]
        wanted = ", ".join(f"{name} {rev}" for _, name, rev, _ in dependencies)
        raise LabError(f"could not fetch {wanted} from Maven Central (is it reachable?): " + " | ".join(said[:4]))


def _ivy_jar() -> Path:
    # Found, not imported: the lab does not know Spark, it only borrows a jar that is installed with it.
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted(Path(place, "jars").glob("ivy-*.jar")):
            return jar
    raise LabError("found no jars/ivy-*.jar in the installed pyspark, which is needed to fetch Kafka: install pyspark")
