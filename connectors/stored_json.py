"""Parses JSON from a file that a crash, a disk or a person may have damaged."""

import json
from typing import Any


def parse_json(content: bytes | str) -> Any:
    """Returns the parsed value, of any type: the caller checks it.

    Raises:
        ValueError: it is not JSON, not UTF-8, or nested too deeply.
    """
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("nested too deeply") from None
