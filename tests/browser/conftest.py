"""One Chromium for all tests of a module."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import Browser, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with (
        tempfile.TemporaryDirectory(prefix="kraftwatch-chromium-", ignore_cleanup_errors=True) as profile,
        chromium(Path(profile)) as browser,
    ):
        yield browser
