"""Closes every ledger that a test of this folder opens, so that the test process keeps no descriptor of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.delivery import ledger
from connectors.delivery.ledger_file import LedgerFile


@pytest.fixture(autouse=True)
def closed_ledgers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    opened: list[LedgerFile] = []

    def open_ledger_file(path: Path) -> LedgerFile:
        opened.append(LedgerFile(path))
        return opened[-1]

    monkeypatch.setattr(ledger, "LedgerFile", open_ledger_file)
    yield
    for file in opened:
        file.close()
