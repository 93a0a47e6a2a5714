"""What each view shows of a situation: `situation_views.py` has the form. `make goldens` writes it: read it."""

import pytest

from tests.golden_file import assert_golden
from tests.unit.streaming.status.situation_views import VIEWS, file_text


@pytest.mark.parametrize("name", sorted(path.stem for path in VIEWS.iterdir()))
def test_views_of_the_situation_show_this(name: str) -> None:
    path = VIEWS / f"{name}.txt"
    assert_golden(path, file_text(path))
