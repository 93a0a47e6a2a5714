"""Changes modules when they are imported. Standard library only: it runs in every Python process of the job."""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

Change = Callable[[ModuleType], None]


class ImportHook(importlib.abc.MetaPathFinder):
    """Calls the changes of a module right after its import, before any other module can use a name of it."""

    def __init__(self, changes: Mapping[str, Sequence[Change]]) -> None:
        """`changes` by the full name of the module."""
        self._changes = changes

    def install(self) -> None:
        """Changes modules from now on, and those that are imported already."""
        sys.meta_path.insert(0, self)
        for name in self._changes:
            if name in sys.modules:
                self._change(sys.modules[name])

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Finds a module that is to be changed as Python does, and adds the changes to its loading."""
        if fullname not in self._changes:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            self._change(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # this loader loads this module only
        return spec

    def _change(self, module: ModuleType) -> None:
        for change in self._changes[module.__name__]:
            change(module)
