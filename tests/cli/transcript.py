"""Commands as transcripts: what was there, `$ kraftwatch ...`, `----`, and what the command printed and did.

A block of `tests/cli/transcripts/TOPIC.txt` goes on where the one before it ended: in the same folder, a second later.
Above the `----` are:

- words that prepare something, which are functions of `transcript_setup.py`: `new` goes to an empty folder.
- `  TEXT` after `file NAME`: a line of that file.
- `$ kraftwatch WORDS`: runs the command in the process of the test, by its entry point. `> FILE`: stdout is the file.
- `| lines PATTERN` behind it: of stdout only the lines in which the pattern is found.
- `| fields NAME ...` behind it: of each object these fields; `findings.rule` is the field of each finding.
- `$ cat FILE` with `|` or without: what a file holds. `$ sqlite3 FILE STATEMENT`: of a database.

Below it: `exit CODE`, unless that is 0; stdout; stderr with `2>` before each line; the files that the command made
(`+`), changed (`~`) and removed (`-`); the methods of its requests to the HTTP double. A `.` is an empty line.

`TMP` is the folder, `SERVER` the address of the HTTP double, `MOVED` the voters of the stopped quorum with other
endpoints, `OTHER` another user, `VERSION` that of kraftwatch, `PYTHON` the interpreter, `x*201` so many of
them, `\\udcff` no UTF-8.
"""

import gc
import io
import json
import re
import shlex
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, redirect_stderr, redirect_stdout, suppress
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connectors.process import wall_clock
from streaming import cli
from tests.cli import transcript_setup
from tests.sinks.server import HttpDouble
from tests.unit.connectors.logdir.log_dirs import MOVED

SECRET = "do-not-print-me"
_FIXED = {"MOVED": MOVED, "VERSION": metadata.version("kraftwatch"), "PYTHON": shlex.quote(sys.executable)}
_OF_SQLITE = ("-wal", "-shm")
_ENVIRONMENT = {"COLUMNS": "120", "USER": "ana", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
_PROGRESS = (
    "streaming.query.live._REPORT_AFTER_MS",
    "streaming.query.past_replay._REPORT_EVERY_S",
    "streaming.query.recording._SAY_EVERY_S",
)


class Session:
    """Runs the lines of a transcript."""

    def __init__(
        self, place: Path, recorded: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, stack: ExitStack
    ) -> None:
        self.recorded = recorded
        """Returns the checkpoint of a job that recorded faults of two clusters."""
        self.monkeypatch: pytest.MonkeyPatch
        """Whose changes last until the next `new`."""
        self.stack = stack
        self.server: HttpDouble | None
        """Which the words `server answers 200` start."""
        self.other_user: str | None
        """To whom a folder belongs, while the command runs as root."""
        self._place, self._begun, self._of_all = place, 0, monkeypatch
        self.file: Path | None = None
        """To which indented lines are added."""
        for name in ("SUDO_USER", "LOGNAME", "FORCE_COLOR"):
            monkeypatch.delenv(name, raising=False)
        for name, value in _ENVIRONMENT.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("streaming.job.cluster_identity.IDENTIFY_S", 1.0)
        # How often a command says what it waits for, or how far it is, depends on the machine.
        for name in _PROGRESS:
            monkeypatch.setattr(name, 1e9)
        monkeypatch.setattr("secrets.token_hex", self._next_id)
        clock = SimpleNamespace(time_ns=lambda: self.now_ms * 1_000_000, monotonic_ns=time.monotonic_ns)
        monkeypatch.setattr(wall_clock, "time", clock)
        self.begin()

    def begin(self) -> None:
        """Goes to an empty folder."""
        self.stack.close()
        self.monkeypatch = self.stack.enter_context(self._of_all.context())
        self.server, self.other_user = None, None
        self.now_ms, self._ids, self._begun = transcript_setup.BEGIN_MS, 0, self._begun + 1
        self.folder = self._place / str(self._begun)
        self.folder.mkdir()
        self._of_all.chdir(self.folder)

    def run(self, line: str) -> Iterator[str]:
        """Runs one line, and yields what it prints."""
        if line.startswith("  "):
            assert self.file is not None
            self.file.write_text(self.file.read_text() + self.real(line[2:]) + "\n")
        elif line.startswith("$ cat "):
            name, _, shown = line.removeprefix("$ cat ").partition(" | ")
            yield from map(self._of_transcript, _shown((self.folder / name).read_text(), shown))
        elif line.startswith("$ sqlite3 "):
            name, _, statement = line.removeprefix("$ sqlite3 ").partition(" ")
            with closing(sqlite3.connect(self.folder / name)) as database, database:
                yield from ("|".join(map(str, row)) for row in database.execute(statement).fetchall())
        elif line.startswith("$ kraftwatch "):
            words, _, shown = line.removeprefix("$ kraftwatch ").partition(" | ")
            words, _, target = words.partition(" > ")
            yield from self._kraftwatch(shlex.split(self.real(words)), shown, target)
            self.now_ms += 1_000
        else:
            transcript_setup.run(self, line)

    def real(self, text: str) -> str:
        """Returns a line of a transcript with the names of this run."""
        for name, found in self._names().items():
            text = text.replace(name, found)
        text = re.sub(r"x\*(\d+)", lambda many: "x" * int(many[1]), text)
        return text.replace(r"\udcff", "\udcff")

    def _kraftwatch(self, words: list[str], shown: str, target: str) -> Iterator[str]:
        requests = [] if self.server is None else self.server.requests
        requests.clear()
        before, out, err = self._files(), io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        with self.monkeypatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
            patched.setattr("sys.argv", ["kraftwatch", *words])
            code = _exit_code()
        out.flush()
        stdout = out.buffer.getvalue().decode()
        assert SECRET not in stdout + err.getvalue() or "--show-secrets" in words
        if code != 0:
            yield f"exit {code}"
        if target:
            (self.folder / target).write_text(stdout)
            stdout = ""
        if str(self.folder) in stdout:
            # The width of a column would be that of the folder's name.
            stdout = re.sub(r"(?<=\S) {3,}", "  ", stdout)
        for line in _shown(stdout, shown):
            yield self._of_transcript(line)
        yield from (f"2> {self._of_transcript(line)}" for line in err.getvalue().splitlines())
        after = self._files()
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                yield f"{'-' if name not in after else '~' if name in before else '+'} {name}"
        if requests:
            yield f"SERVER: {' '.join(one.method for one in requests)}"

    def _of_transcript(self, line: str) -> str:
        for name, found in self._names().items():
            line = line.replace(found, name)
        return line.rstrip() or "."

    def _names(self) -> Mapping[str, str]:
        address = {} if self.server is None else {"SERVER": f"127.0.0.1:{self.server.port}"}
        other = {} if self.other_user is None else {"OTHER": self.other_user}
        return {"TMP": str(self.folder), **_FIXED, **address, **other}

    def _files(self) -> Mapping[str, bytes]:
        return {
            f"{path.relative_to(self.folder)}{'/' if path.is_dir() else ''}": _content(path)
            for path in self.folder.rglob("*")
            if (path.is_file() or path.is_dir()) and not path.name.endswith(_OF_SQLITE)
        }

    def _next_id(self, size: int) -> str:
        self._ids += 1
        return f"{self._ids:0{2 * size}x}"


def _exit_code() -> object:
    """Runs the entry point, and undoes what it sets for a process of its own."""
    threshold, handler = gc.get_threshold(), signal.getsignal(signal.SIGTERM)
    try:
        cli.main()
    except SystemExit as ended:
        return ended.code or 0
    finally:
        gc.set_threshold(*threshold)
        signal.signal(signal.SIGTERM, handler)
    return 0


def _content(path: Path) -> bytes:
    """Returns what is in a file: of a database what its tables hold, because SQLite writes to it when it likes."""
    if path.is_dir():
        return b""
    if path.suffix == ".db":
        with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return sha256("\n".join(database.iterdump()).encode(errors="surrogateescape")).digest()
    return sha256(path.read_bytes()).digest()


def _shown(stdout: str, shown: str) -> Iterator[str]:
    how, _, what = shown.partition(" ")
    for line in stdout.splitlines():
        if how == "fields":
            found = json.loads(line)
            yield " ".join(f"{name}={json.dumps(_field(found, name.split('.')))}" for name in what.split())
        elif how != "lines" or re.search(what, line):
            yield line
    assert how in ("", "fields", "lines"), shown


def _field(found: Any, names: list[str]) -> Any:
    if not names:
        return found
    if isinstance(found, list):
        return [_field(one, names) for one in found]
    return _field(found[names[0]], names[1:])
