"""The errors that a user of the DataFrames reads."""

from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException


def sentence_of(failing: Callable[[], object]) -> str:
    """Returns the last line that Spark shows of a Python error."""
    with pytest.raises(PySparkException) as raised:
        failing()
    return [line for line in str(raised.value).splitlines() if "SQLSTATE" not in line and line.strip()][-1]
