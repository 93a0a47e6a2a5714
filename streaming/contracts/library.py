"""Great Expectations itself, imported in silence: it takes seconds and 250 MB, so only where that does not matter.

No context of its is kept on disk, no progress bar is drawn, and nobody is told that it was used.
"""

import os
import warnings

# Read at the import.
os.environ["GX_ANALYTICS_ENABLED"] = "false"
with warnings.catch_warnings():
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
