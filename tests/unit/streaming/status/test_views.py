"""What each view shows of a situation: `tests.unit.streaming.status.views` has the form. `make goldens` writes it."""

import pytest

from tests.golden_file import assert_golden
from tests.unit.streaming.status.views import VIEWS, file_text


@pytest.mark.parametrize("name", sorted(path.stem for path in VIEWS.iterdir()))
def test_views_of_the_situation_show_this(name: str) -> None:
    path = VIEWS / f"{name}.txt"
    assert_golden(path, file_text(path))
