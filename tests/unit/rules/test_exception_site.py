"""The site of an exception: the newest call of kraftwatch's own code, without the message."""

from collections.abc import Callable
from typing import Any

import pytest

from rules.analysis.freshness import log_read_problem
from rules.evaluate import RULES, exception_site, with_overrides
from rules.finding import Thresholds
from tests.unit.rules.situation import healthy

NO_QUORUM: Any = None
NO_THRESHOLDS: dict[str, Any] = {"no-leader": "secret"}


@pytest.mark.parametrize(
    ("failing", "site"),
    [
        (lambda: log_read_problem(NO_QUORUM), "AttributeError in rules.analysis.freshness, line"),
        # A rule looks up a threshold: both are own code, and the newest call is named.
        (lambda: [*RULES["voter-lagging"].evaluate(healthy(), Thresholds())], "KeyError in rules.finding, line"),
        # Python's `dataclasses` raises, and own code called it.
        (
            lambda: with_overrides({"no-leader": Thresholds()}, {"no-leader": NO_THRESHOLDS["no-leader"]}),
            "TypeError in rules.evaluate, line",
        ),
        # No own code: the first call is named.
        (lambda: int("secret"), f"ValueError in {__name__}, line"),
    ],
)
def test_site_is_the_newest_call_of_own_code(failing: Callable[[], object], site: str) -> None:
    with pytest.raises(Exception) as raised:
        failing()

    named, _, line = exception_site(raised.value).rpartition(" ")
    assert named == site
    assert line.isdecimal()


def test_exception_that_was_not_raised_has_no_site() -> None:
    assert exception_site(ValueError("secret")) == "ValueError"
