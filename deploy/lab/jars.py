"""Downloads Kafka's jars from Maven Central with the Ivy that pyspark contains, into the user's cache.

jars.lock holds the sha256 of each jar (`deploy.schemas.jar_lock` writes it).
"""

import fcntl
import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from rich.console import Console

from deploy.lab import LabError
from deploy.lab.child_process import command_output

KAFKA_VERSION = "4.4.0"
"""The Kafka version that the lab runs by default."""

_LOG4J = "2.24.3"
"""The version that Kafka 4.0 ships with; its modules do not declare it."""
# Ivy's ibiblio resolver knows Maven Central. It gets a separate cache, because an incomplete ~/.m2 breaks it.
_SETTINGS = """<ivysettings>
  <property name="ivy.maven.lookup.sources" value="false"/>
  <property name="ivy.maven.lookup.javadoc" value="false"/>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
# kafka-tools depends on Connect's runtime and its web server: half of all modules, and the lab's tools need none.
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

_DOWNLOAD_S = 1_800.0

LOCK = Path(__file__).with_name("jars.lock")
_LINE = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<jar>\S+\.jar)")
"""The format of sha256sum."""


@cache
def jar_checksums(lock: Path = LOCK) -> Mapping[str, str]:
    """Returns the expected sha256 of each jar by its file name."""
    checksums = {}
    for number, line in enumerate(lock.read_text(encoding="utf-8").splitlines(), start=1):
        entry = _LINE.fullmatch(line)
        if entry is None:
            raise LabError(f"{lock}, line {number}: expected a sha256 and a jar: restore the file from the repository")
        checksums[entry["jar"]] = entry["sha256"]
    return checksums


def verify_jars(jars: Path, checksums: Mapping[str, str], *, lock: Path = LOCK) -> list[str]:
    """Returns the names of the jars in a folder that have no checksum.

    `lock` is the file that the error names.
    """
    expected = {jar.name: checksums.get(jar.name) for jar in sorted(jars.iterdir())}
    for name, checksum in expected.items():
        if checksum is not None and sha256(jars / name) != checksum:
            raise LabError(
                f"{name} from Maven Central is not the file that {lock.name} pins (sha256 {checksum[:12]}…): it was "
                "changed in transit or at its source; do not use it, and ask the operator of your Maven Central mirror"
            )
    return [name for name, checksum in expected.items() if checksum is None]


def sha256(file: Path) -> str:
    """Returns the digest in hexadecimal."""
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


Dependency = tuple[str, str, str, bool]
"""Organisation, name, revision, and whether its own dependencies are downloaded too."""


def cache_folder() -> Path:
    """Returns `kraftwatch/kafka` in $XDG_CACHE_HOME or, if that is not set, in the user's `.cache`."""
    cache_home = os.environ.get("XDG_CACHE_HOME", "")
    if Path(cache_home).is_absolute():
        return Path(cache_home) / "kraftwatch" / "kafka"
    home = os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    return Path(home) / ".cache" / "kraftwatch" / "kafka"


def kafka_jars(version: str = KAFKA_VERSION, *, cache: Path | None = None) -> Path:
    """Returns the folder with the jars of Kafka's broker, controller and tools; downloads them if it does not exist.

    A download takes about 40 s and 45 MB.
    """
    return made_once((cache or cache_folder()) / version, partial(_download, version))


def made_once(target: Path, make: Callable[[Path], Path]) -> Path:
    """Returns a file or folder of the cache. If it does not exist, one process makes it and the others wait.

    Args:
        make: fills an empty folder, and returns what in it gets the name when it is complete.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            # Only the owner of the lock creates these folders, so an existing one is from a process that was killed.
            for stale in target.parent.glob(f".{target.name}.part-*"):
                shutil.rmtree(stale, ignore_errors=True)
            part = Path(tempfile.mkdtemp(prefix=f".{target.name}.part-", dir=target.parent))
            try:
                make(part).rename(target)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return target


def class_archive(jars: Path) -> Path:
    """Returns the file of Java's archive of the classes that a node loads (JEP 350), beside the folder of the jars."""
    return jars.with_name(f"{jars.name}.jsa")


def ensure_class_archive(jars: Path, write: Callable[[Path], None]) -> None:
    """Has the class archive written if there is none: it takes a third of the CPU time off the start of a node.

    Args:
        jars: of one version.
        write: runs a node whose Java writes this file when it ends. Takes about 15 s.
    """

    def make(folder: Path) -> Path:
        Console(stderr=True).print("Preparing Kafka's classes, once for this machine (about 15 s) ...")
        write(folder / "classes.jsa")
        return folder / "classes.jsa"

    made_once(class_archive(jars), make)


def _download(version: str, folder: Path) -> Path:
    console = Console(stderr=True)
    console.print(f"Downloading Kafka {version} from Maven Central (45 MB, about 40 s) ...", highlight=False)
    run_ivy([("org.apache.kafka", name, version, True) for name in ("kafka_2.13", "kafka-tools")], folder)
    logger = _logger(folder / "jars")
    if logger:
        run_ivy([logger], folder)
    missing = [name for name in ("kafka_2.13", "kafka-tools") if not (folder / f"jars/{name}-{version}.jar").exists()]
    if missing:
        raise LabError(f"Maven Central has no {' and no '.join(missing)} {version}: is that a released Kafka version?")
    count = sum(1 for _ in (folder / "jars").iterdir())
    unknown = verify_jars(folder / "jars", jar_checksums())
    checked = f"{len(unknown)} of them not in {LOCK.name}, such as {unknown[0]}" if unknown else "all checksums match"
    console.print(f"Kafka {version}: {count} jars downloaded, {checked}.", highlight=False)
    return folder / "jars"


def _logger(jars: Path) -> Dependency | None:
    """Returns the binding of SLF4J to Log4j, of Log4j's version: without it Kafka logs nothing.

    Kafka before 4.0 has reload4j and its binding; 4.0 has none.
    """
    for jar in jars.glob("log4j-core-*.jar"):
        version = jar.stem.removeprefix("log4j-core-")
        return ("org.apache.logging.log4j", "log4j-slf4j-impl", version, False)
    if any(jars.glob("slf4j-reload4j-*.jar")):
        return None
    return ("org.apache.logging.log4j", "log4j-slf4j-impl", _LOG4J, True)


def run_ivy(dependencies: Sequence[Dependency], folder: Path) -> None:
    """Downloads jars from Maven Central into `folder`/jars; Ivy's own cache is in `folder` too.

    Args:
        folder: an empty folder.
    """
    settings, module = folder / "ivysettings.xml", folder / "ivy.xml"
    settings.write_text(_SETTINGS.format(cache=folder / "ivy"), encoding="utf-8")
    dependency_lines = "".join(
        _DEPENDENCY.format(org=org, name=name, rev=rev, transitive=str(transitive).lower())
        for org, name, rev, transitive in dependencies
    )
    module.write_text(_MODULE.format(dependencies=dependency_lines), encoding="utf-8")
    # Without type `bundle`, scala-logging, snappy and snakeyaml are missing, and Ivy reports no error.
    command = [
        "java", "-Xmx256m", f"-Divy.default.ivy.user.dir={folder / 'ivy'}", "-jar", str(_ivy_jar()),
        "-settings", str(settings), "-ivy", str(module), "-confs", "default",
        "-retrieve", f"{folder}/jars/[artifact]-[revision].[ext]", "-types", "jar", "bundle",
    ]  # fmt: skip
    names = ", ".join(f"{name} {rev}" for _, name, rev, _ in dependencies)
    command_output(
        command, what=f"the download of {names} from Maven Central (is it reachable?)", timeout_s=_DOWNLOAD_S
    )


def pyspark_jars() -> Path:
    """Returns the folder with the jars of the installed pyspark."""
    # pyspark is located, not imported: the lab does not use Spark, only jars that are installed with it.
    spec = importlib.util.find_spec("pyspark")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if Path(folder, "jars").is_dir():
            return Path(folder, "jars")
    raise LabError("found no pyspark, with whose jars others are downloaded and compiled: install pyspark")


def _ivy_jar() -> Path:
    for jar in sorted(pyspark_jars().glob("ivy-*.jar")):
        return jar
    raise LabError("found no jars/ivy-*.jar in the installed pyspark, which downloads Kafka: install pyspark")
