"""The failure that a step raises."""

from collections.abc import Callable

import pytest

from connectors.errors import ObservationError


def failure_of(step: Callable[[], object]) -> ObservationError:
    """Runs a step that must raise an ObservationError; returns the error."""
    with pytest.raises(ObservationError) as problem:
        step()
    return problem.value
