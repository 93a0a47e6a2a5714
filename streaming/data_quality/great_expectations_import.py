"""The import of Great Expectations, without its warnings: it takes seconds and 250 MB, so only audits import it.

Great Expectations keeps no context on disk, draws no progress bar and sends no usage report.
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
    """Hides Spark Connect while entered.

    Spark Connect needs packages that kraftwatch does not install. Where the main module is not a file (`python -c`, a
    worker of a test run), importing it ends the whole program instead of raising an error.
    """
    before = sys.modules.get(_CONNECT)
    sys.modules[_CONNECT] = cast(ModuleType, before)
    try:
        yield
    finally:
        if before is None:
            del sys.modules[_CONNECT]


# Great Expectations reads it at its import.
os.environ["GX_ANALYTICS_ENABLED"] = "false"
with warnings.catch_warnings(), _without_spark_connect():
    # It imports deprecated modules of the standard library.
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
