"""`make outputs`: compares all outputs of many quorums with those recorded before, or records them."""

import os
import sys
import time
from pathlib import Path

from tests.agreement.recorded_outputs import differences, record, sources

_FOLDER = Path(os.environ.get("OUTPUTS") or "build/outputs")
_MOST = 400


def main() -> int:
    """Records into `before` if it does not exist, or with RECORD=1; else into `after`, and prints what differs."""
    began, before, after = time.monotonic(), _FOLDER / "before", _FOLDER / "after"
    names = sources((os.environ.get("ONLY") or "").split(","))
    first = bool(os.environ.get("RECORD")) or not before.exists()
    count = record(before if first else after, names)
    print(f"outputs: of {count:,} quorums, in {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
    found = [] if first else [*differences(before, after, names)]
    for line in found[:_MOST]:
        print(line)  # noqa: T201
    blocks = sum(line.startswith("== ") for line in found)
    print(f"outputs: {'recorded' if first else f'{blocks} quorums differ'}")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
