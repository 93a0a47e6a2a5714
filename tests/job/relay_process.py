"""`kraftwatch relay` as a child process, and the messages of its topic."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import yaml
from confluent_kafka import KafkaException, Message, Producer

from connectors.process.wall_clock import wall_ms
from connectors.relay.relay_message import RefusedRowError, RelayMessage, check_row, parse_message
from connectors.relay.topic_tail import advanced
from connectors.store.journal_reader import JournalReader
from deploy.lab.lab import Lab
from tests.eventually import eventually
from tests.kafka.topic_messages import NO_LEADER_YET, topic_messages

STOP_S = 60


def counted(messages: Sequence[RelayMessage]) -> list[RelayMessage]:
    """Returns the messages of one cluster that readers do not skip; asserts that its log is whole."""
    found, position = [], None
    for one in messages:
        after = advanced(position, one, 0)
        if after is not None:
            found.append(one)
            position = after
    assert position is not None
    assert position.gap is None, "records are missing"
    return found


def is_accepted(message: RelayMessage) -> bool:
    """Returns whether a reader does not refuse the message."""
    try:
        check_row(message, cluster_id=message.cluster_id, appended_at_ms=wall_ms())
    except RefusedRowError:
        return False
    return True


class RelayProcess:
    """A relay of one lab's clusters to a topic of another lab."""

    def __init__(
        self,
        folder: Path,
        topic_lab: Lab,
        *,
        topic: str,
        clusters: Sequence[dict[str, Any]],
        environment: Mapping[str, str] | None = None,
        python: Path = Path(sys.executable),
    ) -> None:
        """`environment`: variables beside those of this process; `python`: of the environment with kraftwatch."""
        self.folder = folder
        self._environment, self.python = environment or {}, python
        self.section: dict[str, Any] = {
            "bootstrap": list(topic_lab.broker_bootstrap),
            "topic": topic,
            "create": True,
            "folder": str(folder / "relay"),
        }
        self.keys: dict[str, Any] = {}
        """Of the configuration, beside clusters and relay."""
        self._clusters = list(clusters)
        self._topic = topic
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """The name under which it writes, once it has been started."""
        return str(json.loads((Path(self.section["folder"]) / "source.json").read_text())["relay"])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return (self.folder / "relay.log").read_text()

    def start(self, *arguments: str, **keys: Any) -> None:
        """Starts the relay; `keys` are further ones of its section."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "relay.yaml"
        file.write_text(yaml.safe_dump({"clusters": self._clusters, "relay": {**self.section, **keys}, **self.keys}))
        with (self.folder / "relay.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.python, "-m", "streaming", "relay", "--config", str(file), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.folder,
                env={**os.environ, **self._environment},
            )

    def kill(self) -> None:
        """Sends SIGKILL to the relay; its gatherer, in a session of its own, ends by itself."""
        assert self._process is not None
        children = psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()
        self._process.wait(STOP_S)
        psutil.wait_procs(children, timeout=STOP_S)

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def stop(self) -> int:
        """Sends SIGTERM and returns the exit code."""
        if self._process is None:
            return 0
        self._process.terminate()
        return self._process.wait(STOP_S)

    def wait_until_acknowledged(self) -> None:
        """Waits until the topic has a row that the relay has gathered."""
        journal = JournalReader(Path(self.section["folder"]) / "journal")
        eventually(lambda: journal.created and journal.committed_end() > 0, within_s=60)

    def wait_for_rows(self, count: int) -> None:
        """Waits until the topic has this many messages."""

        def written() -> bool:
            try:
                return len(self.raw_messages()) >= count
            except KafkaException as error:
                if error.args[0].code() not in NO_LEADER_YET:
                    raise
                return False

        eventually(written, within_s=60, every_s=1)

    def messages(self) -> list[RelayMessage]:
        """Returns all messages of the topic, partition by partition."""
        return [parse_message(one.key(), one.value(), one.headers()) for one in self.raw_messages()]

    def raw_messages(self) -> list[Message]:
        """Returns all messages, partition by partition; none while the topic does not exist."""
        return topic_messages(",".join(self.section["bootstrap"]), self._topic)

    def write(self, *messages: RelayMessage, topic: str | None = None) -> None:
        """Writes messages as whoever has the credential of a relay can do."""
        for one in messages:
            self._producer.produce(topic or self._topic, one.value(), one.key, headers=[*one.headers])
        assert self._producer.flush(60) == 0

    @cached_property
    def _producer(self) -> Any:
        bootstrap = ",".join(self.section["bootstrap"])
        # The partitioner of the relay.
        return Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2", "log_level": 0})
