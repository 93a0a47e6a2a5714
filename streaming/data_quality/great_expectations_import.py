"""Great Expectations itself, imported in silence: it takes seconds and 250 MB, so only where that does not matter.

No context of its is kept on disk, no progress bar is drawn, and nobody is told that it was used.
"""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import cast

_CONNECT = "pyspark.sql.connect"


@contextmanager
def _without_spark_connect() -> Iterator[None]:
    """As long as this lasts, Spark Connect is not installed.

    It needs packages that we do not, and where the main module is no file (`python -c`, a worker of a test run)
    its import ends the whole program instead of failing.
    """
    before = sys.modules.get(_CONNECT)
    sys.modules[_CONNECT] = cast(ModuleType, before)
    try:
        yield
    finally:
        if before is None:
            del sys.modules[_CONNECT]


# Read at the import.
os.environ["GX_ANALYTICS_ENABLED"] = "false"
with warnings.catch_warnings(), _without_spark_connect():
    # It imports modules of the standard library that are deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import great_expectations as gx
    from great_expectations import expectations as expect
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.data_context.types.base import ProgressBarsConfig
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

__all__ = [
    "ExpectationSuiteIdentifier",
    "ProgressBarsConfig",
    "RunIdentifier",
    "ValidationResultIdentifier",
    "expect",
    "gx",
]
