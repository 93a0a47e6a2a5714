"""Run the tests in a new process that imports one module with a change: for functions that only run at import."""

import importlib.util
import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import NoReturn

import pytest

from tests.mutation.fork import FirstFailure
from tests.mutation.live_functions import dotted_name


class ChangedSource(SourceFileLoader):
    """Loads a module from changed source code."""

    def __init__(self, module: str, code: str) -> None:
        super().__init__(dotted_name(module), str(Path.cwd() / module))
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._code, self.path, "exec")


class ChangedModule(MetaPathFinder):
    """Finds one module with changed source code; all other modules as usual."""

    def __init__(self, loader: ChangedSource) -> None:
        self._loader = loader

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        loader = self._loader
        return (
            importlib.util.spec_from_file_location(fullname, loader.path, loader=loader)
            if fullname == loader.name
            else None
        )


def run_new_process(module: str, code: str, arguments: list[str], output: int) -> NoReturn:
    """Replaces this process by one that runs pytest with the changed module.

    Args:
        module: the path of the module.
        code: its changed source code.
        arguments: of pytest.
        output: the descriptor for the test that fails.
    """
    changed = Path(f"changed-{os.getpid()}.txt")
    changed.write_text(code)
    os.set_inheritable(output, True)
    command = [sys.executable, "-m", "tests.mutation.import_time", str(output), module, str(changed), *arguments]
    os.execv(sys.executable, command)


def main() -> int:
    output, module, changed, *arguments = sys.argv[1:]
    sys.meta_path.insert(0, ChangedModule(ChangedSource(module, Path(changed).read_text())))
    return int(pytest.main(arguments, plugins=[FirstFailure(int(output))]))


if __name__ == "__main__":
    sys.exit(main())
