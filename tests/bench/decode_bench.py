"""What decode costs: CPU time, the process's own, on any log segment or `.checkpoint`.

`python tests/bench/decode_bench.py [FILE ...]` without a file takes the small ones the tests have.
"""

import lzma
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from connectors.event_columns import EventColumns
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode
from connectors.metadata.redaction import redact

DATA = Path(__file__).parents[1] / "data" / "metadata"
PIECE = 1 << 20
"""Bytes of one observation at most, as far as batches allow."""


def main(names: list[str]) -> None:
    """One line a file: records, batches, and the cost of each step."""
    files = [Path(name) for name in names] or sorted(DATA.glob("*.xz"))
    for path in files:
        content = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        batches = [item for item in scan(content) if isinstance(item, RecordBatch)]
        records = sum(batch.record_count for batch in batches)
        sys.stdout.write(f"{path.name}: {records:,} records, {len(batches):,} batches, {len(content):,} bytes\n")
        kind = "snapshot" if ".checkpoint" in path.name else "records"
        parts = list(pieces(content, batches))
        steps: list[tuple[str, Callable[[int, bytes], object]]] = [
            ("scan", scanned),
            ("redact", redacted),
            ("decode", partial(decoded, kind)),
            ("decode, to columns", partial(columns, kind)),
        ]
        for step, run in steps:
            best = min(spent(parts, run) for _ in range(3))
            sys.stdout.write(
                f"  {step:20} {best:7.3f} s  {records / best / 1e6:6.2f} M records/s"
                f"  {len(content) / best / 1e6:7.1f} MB/s  {best / len(batches) * 1e6:7.2f} µs a batch\n"
            )


def scanned(_: int, part: bytes) -> int:
    """Batches found, each CRC checked."""
    return sum(1 for _ in scan(part))


def redacted(_: int, part: bytes) -> bytes:
    """What gather writes."""
    return redact(part)


def columns(kind: str, base: int, part: bytes) -> dict[str, list[Any]]:
    """One observation decoded, and turned to columns."""
    return decoded(kind, base, part).columns()


def decoded(kind: str, base: int, part: bytes) -> EventColumns:
    """One observation decoded."""
    return decode(part, kind=kind, base_offset=base, last_offset=base, leader_epoch=1, high_watermark=base)


def pieces(content: bytes, batches: list[RecordBatch]) -> Iterator[tuple[int, bytes]]:
    """Whole batches, as observations hold them, with the first one's base offset."""
    start, base = 0, batches[0].base_offset
    for batch in batches:
        if batch.end - start > PIECE and batch.position > start:
            yield base, content[start : batch.position]
            start, base = batch.position, batch.base_offset
    yield base, content[start : batches[-1].end]


def spent(parts: list[tuple[int, bytes]], run: Callable[[int, bytes], object]) -> float:
    """CPU seconds of one step over all pieces; each result is let go before the next."""
    before = time.process_time()
    for base, part in parts:
        run(base, part)
    return time.process_time() - before


if __name__ == "__main__":
    main(sys.argv[1:])
