"""The rules are tested with statements that keep their claims: in an f-string they would be lost without a sign."""

import sys
from pathlib import Path

import pytest

from rules.claims.statement import Statement

_RULES = Path(sys.modules[Statement.__module__].__file__ or "").parents[1]
_MAKE_TEXTS = tuple(str(_RULES / folder) for folder in ("answers", "checks", "facts", "remedies"))


@pytest.fixture(autouse=True, scope="session")
def claims_are_kept() -> None:
    """What is said without its claim on purpose, as in a condition, is written `{text!s}`."""

    def kept(self: Statement, spec: str) -> str:
        code = sys._getframe(1).f_code
        lost = self.claims and code.co_filename.startswith(_MAKE_TEXTS)
        assert not lost, f"{code.co_filename}, {code.co_name}: {self!s} loses its claims: put it into statement(...)"
        return str.__format__(self, spec)

    pytest.MonkeyPatch().setattr(Statement, "__format__", kept)
