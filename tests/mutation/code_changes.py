"""Small changes of a module's code, made with mutmut's operators."""

import difflib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import libcst
from mutmut.mutation.file_mutation import create_mutations

SAMPLED = (4, 7, 1, 9, 2, 5, 8, 3, 6, 0)
"""Last digits of the numbers of the changes in a sample of one tenth, two tenths, and so on."""


@dataclass(frozen=True, kw_only=True)
class CodeChange:
    """One change of one function.

    Attributes:
        module: the path of the module, such as `rules/lifecycle.py`.
        function: the name of the function or method, without its class.
        number: the position among the changes of functions with this name, from 1.
        before: the code of the whole module.
        after: the same with the change.
    """

    module: str
    function: str
    number: int
    before: str
    after: str

    def __str__(self) -> str:
        lines = difflib.unified_diff(self.before.splitlines(), self.after.splitlines(), n=1, lineterm="")
        return "\n".join([f"{self.module} {self.function} {self.number}", *[*lines][2:]])


def code_changes(root: Path, module: str, tenths: int) -> Iterator[CodeChange]:
    """Yields so many tenths of the changes of a module's functions, in the order of the file."""
    before = (root / module).read_text()
    tree, mutations, _, _ = create_mutations(module, before)
    numbers = Counter[str]()
    for mutation in mutations:
        function = mutation.contained_by_top_level_function
        if not isinstance(function, libcst.FunctionDef):
            continue
        name = function.name.value
        numbers[name] += 1
        if numbers[name] % 10 not in SAMPLED[:tenths]:
            continue
        changed = tree.deep_replace(mutation.original_node, mutation.mutated_node)
        assert isinstance(changed, libcst.Module)
        if changed.code != before:
            yield CodeChange(module=module, function=name, number=numbers[name], before=before, after=changed.code)
