"""A real controller is started with each mistake of `start_log`: what its log says, and which cause is found by it."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest

from deploy.lab.node import Node
from rules.remedies.start_log import LOG_PHRASES, LogPhrase
from tests.chaos.small_disk import fill, mount
from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.lab import Lab

pytestmark = [
    pytest.mark.lab,
    pytest.mark.live,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can mount disks"),
]
_Mistake = Callable[[Lab, Node], AbstractContextManager[None]]
_HOLD = (
    "import fcntl, sys, time; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); print(flush=True); "
    "time.sleep(600)"
)


def _file(name: str, change: Callable[[bytes], bytes]) -> _Mistake:
    """Changes a file of the log directory; it is deleted if nothing is left."""

    def make(_lab: Lab, node: Node) -> AbstractContextManager[None]:
        path = max(node.data.glob(name))
        content = change(path.read_bytes())
        path.unlink()
        if content:
            path.write_bytes(content)
        return nullcontext()

    return make


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]


def _settings(pattern: str, by: str, more: str = "") -> _Mistake:
    def make(_lab: Lab, node: Node) -> AbstractContextManager[None]:
        text = node.properties_file.read_text(encoding="utf-8")
        node.properties_file.write_text(re.sub(pattern, by, text) + more, encoding="utf-8")
        return nullcontext()

    return make


def _version(_lab: Lab, _node: Node) -> AbstractContextManager[None]:
    """That of the phrase: every phrase is made with its own."""
    return nullcontext()


@contextmanager
def _port_taken(_lab: Lab, node: Node) -> Iterator[None]:
    with socket.create_server(("127.0.0.1", node.controller_port or 0)):
        yield


@contextmanager
def _lock_taken(_lab: Lab, node: Node) -> Iterator[None]:
    lock = [sys.executable, "-c", _HOLD, str(node.data / ".lock")]
    with subprocess.Popen(lock, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.kill()


@contextmanager
def _full_disk(lab: Lab, node: Node) -> Iterator[None]:
    """The index files are mapped into memory and sparse: a block is missing when it is written."""
    disk = mount(lab.directory / "full", megabytes=1)
    try:
        subprocess.run(["cp", "-a", "--sparse=always", str(node.data), str(disk)], check=True)
        fill(disk)
        with _settings(re.escape(str(node.data)), str(disk / node.data.name))(lab, node):
            yield
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@contextmanager
def _small_heap(lab: Lab, _node: Node) -> Iterator[None]:
    lab.java_options = ("-Xmx10m",)
    yield
    lab.java_options = ()


_SECURED = r"CONTROLLER:PLAINTEXT"
MISTAKES: Mapping[str, _Mistake] = {
    "a fault occurred in": _full_disk,
    "No readable meta.properties files found": _file("meta.properties", lambda _: b""),
    "doesn't match previous node id": _file(
        "meta.properties", lambda text: re.sub(rb"node.id=\d+", b"node.id=77", text)
    ),
    "Address already in use": _port_taken,
    "Failed to acquire lock on file .lock": _lock_taken,
    "CorruptRecordException": _file("*/*.checkpoint", _flipped),
    "No MetadataVersion with": _version,
    "only supports versions": _version,
    "Can't read version": _version,
    "OutOfMemoryError": _small_heap,
    "Unknown endpoint for leader": _settings("CONTROLLER", "CTRL"),
    "must be included in the set of voters": _settings(
        r"(?m)^controller.quorum.bootstrap.servers=.*$", "controller.quorum.voters=77@127.0.0.1:9"
    ),
    "Failed to load SSL": _settings(
        _SECURED, "CONTROLLER:SSL", "ssl.keystore.location=/nowhere\nssl.keystore.password=x\n"
    ),
    "entry in the JAAS configuration": _settings(
        _SECURED,
        "CONTROLLER:SASL_PLAINTEXT",
        "sasl.mechanism.controller.protocol=PLAIN\nsasl.enabled.mechanisms=PLAIN\n",
    ),
    "ConfigException": _settings(r"(?m)^num.io.threads=.*$", "num.io.threads=none"),
    "requirement failed": _settings(r"(?m)^controller.listener.names=.*$", "controller.listener.names=OTHER"),
}
"""By phrase."""
NOT_MADE = {
    "No space left on device",  # from a running controller, which goes on for a while
    "Unknown metadata version",  # of a damaged snapshot that a controller wrote: test_damaged_logs
}


def _found(log: str) -> LogPhrase | None:
    return next((one for one in LOG_PHRASES if any(each in log for each in one.says)), None)


def _log_of_start(quorum: Lab, node: Node, cause: LogPhrase) -> str:
    """Starts a controller until it ends or its log says one of the phrases, and returns the log of this start."""
    node.log_file.unlink()
    quorum.start(node.id, wait=False)
    eventually(lambda: not node.running or _found(node.log_tail(10_000)) is cause, within_s=30)
    if node.running:
        quorum.kill(node.id)
    return node.log_tail(10_000)


def test_the_log_of_each_mistake_has_the_cause_of_the_first_phrase_that_is_in_it(lab: MakeLab) -> None:
    quorum = lab(controllers=3, brokers=1)
    node = quorum.node(quorum.followers[0])
    quorum.stop(node.id)
    sound = quorum.directory / "sound"
    subprocess.run(["cp", "-a", str(node.data), str(sound)], check=True)
    settings = node.properties_file.read_text(encoding="utf-8")
    wrong = []
    for cause in LOG_PHRASES:
        for phrase, version in cause.says.items():
            if phrase not in MISTAKES:
                continue
            node.version = version
            with MISTAKES[phrase](quorum, node):
                log = _log_of_start(quorum, node, cause)
            # Of a cause with several phrases chance may decide which one is said: which thread meets it first.
            if (found := _found(log)) is not cause:
                wrong.append((phrase, found and found.cause, log[-2_000:]))
            node.properties_file.write_text(settings, encoding="utf-8")
            subprocess.run(["rm", "-r", str(node.data)], check=True)
            subprocess.run(["cp", "-a", str(sound), str(node.data)], check=True)

    assert wrong == []


def test_each_phrase_is_made_by_a_mistake() -> None:
    assert {phrase for cause in LOG_PHRASES for phrase in cause.says} == {*MISTAKES} | NOT_MADE
