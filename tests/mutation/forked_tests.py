"""Run the tests for each change in a fork of one process that has imported the code and collected the tests.

The fork replaces the code of the changed function, and runs the tests that reach it until one fails. If no test calls
it, because it only runs at import, the fork is a new process that runs all tests. Results are JSON lines in an
inherited file descriptor.
"""

import argparse
import importlib
import json
import os
import select
import signal
import sys
import time
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import NoReturn, TextIO

import pytest

from tests.mutation.code_changes import CodeChange, code_changes
from tests.mutation.fork import ERROR, KILLED, NOT_REPLACED, SURVIVED, FirstFailure, Fork, fork
from tests.mutation.import_time import run_new_process
from tests.mutation.live_functions import clear_caches, dotted_name, functions, replace
from tests.mutation.reach import Reach, file_of

ROOT = Path.cwd()
RESULTS: dict[int, str] = {
    SURVIVED: "survived",
    KILLED: "killed",
    ERROR: "killed",
    pytest.ExitCode.INTERRUPTED: "killed",
    pytest.ExitCode.INTERNAL_ERROR: "killed",
    pytest.ExitCode.USAGE_ERROR: "killed",
    NOT_REPLACED: "not replaced",
    -signal.SIGALRM: "timed out",
}
"""What the exit code of a fork means. Those of pytest and ERROR: the changed module cannot be imported."""
_FIRST_RUN_SECONDS = 1_800
_COLLECTION_SECONDS = 60
"""A new process imports everything and collects the tests again."""


class ForkedTests:
    """A pytest plugin that runs the collected tests for every change instead of once."""

    def __init__(self, options: argparse.Namespace, results: TextIO) -> None:
        self._options = options
        self._results = results
        self._running: dict[int, tuple[Fork, CodeChange]] = {}
        """By the descriptor of the fork's output."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._session = session
        self._items = [*session.items]
        started = time.monotonic()
        reach = self._without_change()
        seconds = 10 + 3 * int(time.monotonic() - started)
        for module in self._options.modules:
            for change in code_changes(ROOT, module, self._options.tenths):
                function = (change.module, change.function)
                while len(self._running) >= self._options.children:
                    self._wait()
                if function in reach:
                    items = [item for item in self._items if reach.includes(function, item)]
                    started_fork = fork(partial(self._with, change, items), seconds=seconds)
                else:
                    started_fork = fork(partial(self._imported_with, change), seconds=_COLLECTION_SECONDS + seconds)
                self._running[started_fork.output] = started_fork, change
        while self._running:
            self._wait()
        return True

    def _without_change(self) -> Reach:
        """Runs every test once.

        Raises:
            SystemExit: one fails.
        """
        reach = Reach(
            {
                function.__code__: (module, name.split(".")[-1])
                for module in self._options.modules
                for name, function in functions(_imported(module)).items()
            }
        )

        def task(output: int) -> NoReturn:
            self._session.config.pluginmanager.register(reach)
            self._run(self._items, output)
            with os.fdopen(output, "w") as written:
                written.write(reach.to_json())
            os._exit(SURVIVED)

        code, written = fork(task, seconds=_FIRST_RUN_SECONDS).ended()
        if code:
            sys.exit(f"a test fails without a change: {written or code}")
        return Reach.from_json(written)

    def _with(self, change: CodeChange, items: list[pytest.Item], output: int) -> NoReturn:
        if not replace(_imported(change.module), change.after, change.function):
            os._exit(NOT_REPLACED)
        clear_caches()
        self._run(items, output)
        os._exit(SURVIVED)

    def _imported_with(self, change: CodeChange, output: int) -> NoReturn:
        first = file_of(self._items[0])
        run_new_process(
            change.module, change.after, [*pytest_arguments(self._options), first, *self._options.tests], output
        )

    def _run(self, items: list[pytest.Item], output: int) -> None:
        self._session.config.pluginmanager.register(FirstFailure(output))
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    def _wait(self) -> None:
        """Waits until a fork ends. The test that failed is the first for the next changes, which are near this one."""
        for output in select.select([*self._running], [], [])[0]:
            ended, change = self._running.pop(output)
            code, written = ended.ended()
            failed = written.partition("\n")[0]
            self._items.sort(key=lambda item: item.nodeid != failed)
            self._report(change, RESULTS.get(code, f"ended by {code}"))

    def _report(self, change: CodeChange, result: str) -> None:
        self._results.write(json.dumps({"module": change.module, "result": result, "change": str(change)}) + "\n")
        self._results.flush()


def _imported(module: str) -> ModuleType:
    return importlib.import_module(dotted_name(module))


def pytest_arguments(options: argparse.Namespace) -> list[str]:
    return ["--quiet", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=0", "-m", options.marks]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.forked_tests", description=__doc__)
    parser.add_argument("--modules", nargs="+", required=True)
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--marks", required=True, help="expression that chooses tests, as pytest takes it")
    parser.add_argument("--tenths", type=int, required=True)
    parser.add_argument("--children", type=int, required=True)
    parser.add_argument("--results", type=int, required=True, help="file descriptor for the results")
    options = parser.parse_args()
    with os.fdopen(options.results, "w") as results:
        return pytest.main([*pytest_arguments(options), *options.tests], plugins=[ForkedTests(options, results)])


if __name__ == "__main__":
    sys.exit(main())
