"""States of the files beside a metadata log, and whether a controller of Kafka 4.4.0 starts with each of them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from connectors.logdir.log_dir_files import PARTITION

META, STATE, EPOCHS, TOPIC = (
    "meta.properties",
    f"{PARTITION}/quorum-state",
    f"{PARTITION}/leader-epoch-checkpoint",
    f"{PARTITION}/partition.metadata",
)
OTHER = "mEK5DQ3nRnaFPEdkZL8zYA"
_Content = Callable[[bytes], bytes | None]


class StartState(NamedTuple):
    """One file in one state."""

    file: str
    name: str
    content: _Content
    """Returns the content in this state, by a sound one (empty: there is none); None: the file is missing."""
    ends: bool
    """Whether Kafka ends at its start, with exit code 1."""

    def put(self, log_dir: Path) -> None:
        """Brings the file of a log directory into this state."""
        path = log_dir / self.file
        content = self.content(path.read_bytes() if path.exists() else b"")
        if content is None:
            path.unlink(missing_ok=True)
        elif content == b"folder":
            path.unlink(missing_ok=True)
            path.mkdir()
        else:
            path.write_bytes(content)


def _is(content: bytes | str) -> _Content:
    return lambda _: content if isinstance(content, bytes) else content.encode()


def _replaced(pattern: str, by: str) -> _Content:
    return lambda sound: re.sub(pattern, by, sound.decode()).encode()


def _with(**fields: object) -> _Content:
    return lambda sound: json.dumps({**json.loads(sound), **fields}).encode()


def _without(name: str) -> _Content:
    return lambda sound: json.dumps({key: value for key, value in json.loads(sound).items() if key != name}).encode()


def _half(sound: bytes) -> bytes:
    return sound[: len(sound) // 2]


def _crlf(sound: bytes) -> bytes:
    return sound.replace(b"\n", b"\r\n")


def _missing(_: bytes) -> None:
    return None


START_STATES: Final = (
    *(StartState(file, "missing", _missing, file is META) for file in (META, STATE, EPOCHS, TOPIC)),
    *(StartState(file, "empty", _is(""), file is not EPOCHS) for file in (META, STATE, EPOCHS, TOPIC)),
    *(StartState(file, "half", _half, True) for file in (META, STATE, EPOCHS, TOPIC)),
    *(StartState(file, "zeros", lambda sound: bytes(len(sound)), True) for file in (META, STATE, EPOCHS, TOPIC)),
    *(StartState(file, "other text", _is("hello\nworld\n"), True) for file in (META, STATE, EPOCHS, TOPIC)),
    *(StartState(file, "folder", _is("folder"), True) for file in (META, STATE, EPOCHS, TOPIC)),
    *(StartState(file, "CRLF", _crlf, False) for file in (META, EPOCHS, TOPIC)),
    StartState(META, "without node.id", _replaced("node.id=.*\n", ""), True),
    StartState(META, "without cluster.id", _replaced("cluster.id=.*\n", ""), True),
    StartState(META, "without version", _replaced("version=.*\n", ""), True),
    StartState(META, "version 0", _replaced("version=1", "version=0"), True),
    StartState(META, "version 2", _replaced("version=1", "version=2"), True),
    StartState(META, "directory.id that is no UUID", _replaced("directory.id=.*", "directory.id=x"), True),
    StartState(META, "reserved directory.id", _replaced("directory.id=.*", f"directory.id={'A' * 20}Cg"), True),
    StartState(META, "another cluster.id", _replaced("cluster.id=.*", f"cluster.id={OTHER}"), False),
    StartState(STATE, "version 2", _with(data_version=2), True),
    StartState(STATE, "version 0 in a dynamic quorum", _with(data_version=0), True),
    *(
        StartState(STATE, f"without {name}", _without(name), True)
        for name in ("leaderEpoch", "leaderId", "votedId", "votedDirectoryId", "data_version")
    ),
    StartState(STATE, "a field that no version has", _with(more=1), False),
    StartState(STATE, "epoch 0", _with(leaderEpoch=0, leaderId=-1), False),
    StartState(STATE, "epoch -1", _with(leaderEpoch=-1), False),
    StartState(STATE, "epoch 1000", _with(leaderEpoch=1000, leaderId=-1), False),
    StartState(STATE, "the last epoch", _with(leaderEpoch=2**31 - 1, leaderId=-1), True),
    StartState(STATE, "another leader", _with(leaderId=77, votedId=-1), False),
    StartState(STATE, "another vote", _with(leaderId=-1, votedId=77, votedDirectoryId=OTHER), False),
    StartState(STATE, "a word for a number", _with(leaderId="x"), True),
    StartState(EPOCHS, "version 1", _replaced("^0", "1"), True),
    StartState(EPOCHS, "version -1", _replaced("^0", "-1"), True),
    StartState(EPOCHS, "count too high", _is("0\n2\n1 0\n"), True),
    StartState(EPOCHS, "count too low", _is("0\n0\n1 0\n"), True),
    StartState(EPOCHS, "no entries", _is("0\n0\n"), False),
    StartState(EPOCHS, "version alone", _is("0\n"), False),
    StartState(EPOCHS, "three numbers in a line", _is("0\n1\n1 0 5\n"), True),
    StartState(EPOCHS, "a word in a line", _is("0\n1\na b\n"), True),
    StartState(EPOCHS, "epochs descend", _is("0\n2\n5 0\n3 4\n"), False),
    StartState(EPOCHS, "offsets descend", _is("0\n2\n1 9\n2 4\n"), False),
    StartState(EPOCHS, "an epoch beyond the log", _is("0\n2\n1 0\n9 99999\n"), False),
    StartState(EPOCHS, "a negative offset", _is("0\n1\n1 -5\n"), True),
    StartState(EPOCHS, "a negative epoch", _is("0\n1\n-2 0\n"), True),
    StartState(EPOCHS, "an empty line at the end", lambda sound: sound + b"\n", True),
    StartState(TOPIC, "another topic", _replaced("topic_id: .*", f"topic_id: {OTHER}"), True),
    StartState(TOPIC, "zero topic id", _replaced("topic_id: .*", f"topic_id: {'A' * 22}"), True),
    StartState(TOPIC, "version 1", _replaced("version: 0", "version: 1"), False),
    StartState(TOPIC, "version -1", _replaced("version: 0", "version: -1"), True),
    StartState(TOPIC, "version alone", _is("version: 0\n"), True),
    StartState(TOPIC, "topic id that is no UUID", _replaced("topic_id: .*", "topic_id: x"), True),
    StartState(TOPIC, "a third line", lambda sound: sound + b"\nx: y\n", False),
    StartState("bootstrap.checkpoint", "empty", _is(""), True),
    StartState("bootstrap.checkpoint", "other text", _is("hello" * 30), True),
    StartState("bootstrap.checkpoint", "folder", _is("folder"), True),
    StartState(".lock", "other text", _is("hello"), False),
    StartState(".lock", "folder", _is("folder"), True),
    StartState(".kafka_cleanshutdown", "other text", _is("hello"), False),
    *(
        StartState(f"{name}-checkpoint", "other text", _is("hello\nworld\n"), False)
        for name in ("recovery-point-offset", "log-start-offset", "replication-offset", "cleaner-offset")
    ),
    *(
        StartState(f"{PARTITION}/{0:020}.{suffix}", name, content, name == "folder")
        for suffix in ("index", "timeindex")
        for name, content in (("missing", _missing), ("seven bytes", _is(b"abcdefg")), ("folder", _is("folder")))
    ),
    StartState(f"{PARTITION}/{12:020}.snapshot", "other text", _is("hello" * 9), False),
    StartState(f"{PARTITION}/quorum-state.tmp", "left over", _is("x"), False),
    StartState(f"{PARTITION}/leader-epoch-checkpoint.tmp", "left over", _is("x"), False),
    StartState(f"{PARTITION}/{9:020}-{1:010}.checkpoint.part", "left over", _is("x"), False),
    StartState(f"{PARTITION}/{9:020}-{1:010}.checkpoint.deleted", "left over", _is("x"), False),
)
