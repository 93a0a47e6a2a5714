"""Measures the CPU time of decoding a log segment or `.checkpoint`.

`python tests/bench/decode_bench.py [FILE ...]`; without a file it uses the small ones of the tests.
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
from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.metadata.redaction import redact
from streaming.pipeline.decode import EVENT_ARROW
from streaming.pipeline.event_arrow import event_arrays

DATA = Path(__file__).parents[1] / "data" / "metadata"
EVENT_TYPES = {field.name: field.type for field in EVENT_ARROW}
PIECE = 1 << 20
"""The maximal size of one observation in bytes, unless a single batch is larger."""


def main(names: list[str]) -> None:
    """Prints records, batches and the cost of each step, file by file."""
    files = [Path(name) for name in names] or sorted(DATA.glob("*.xz"))
    for path in files:
        content = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        batches = [item for item in scan(content) if isinstance(item, RecordBatch)]
        records = sum(batch.record_count for batch in batches)
        sys.stdout.write(f"{path.name}: {records:,} records, {len(batches):,} batches, {len(content):,} bytes\n")
        kind = "snapshot" if ".checkpoint" in path.name else "records"
        parts = list(split_into_pieces(content, batches))
        steps: list[tuple[str, Callable[[int, bytes], object]]] = [
            ("scan", scan_batches),
            ("redact", redact_piece),
            ("decode", partial(decode_piece, kind)),
            ("decode, to Arrow", partial(decode_to_arrow, kind)),
            ("redact, to Arrow", partial(redact_to_arrow, kind)),
        ]
        for step, run in steps:
            best = min(cpu_seconds(parts, run) for _ in range(3))
            sys.stdout.write(
                f"  {step:20} {best:7.3f} s  {records / best / 1e6:6.2f} M records/s"
                f"  {len(content) / best / 1e6:7.1f} MB/s  {best / len(batches) * 1e6:7.2f} µs a batch\n"
            )


def scan_batches(_: int, part: bytes) -> int:
    """Counts the batches and checks each CRC."""
    return sum(1 for _ in scan(part))


def redact_piece(_: int, part: bytes) -> bytes:
    """Redacts one observation, as the gatherer does."""
    return redact(part)


def decode_to_arrow(kind: str, base: int, part: bytes) -> dict[str, Any]:
    """Decodes one observation to the columns of the decode stage."""
    return event_arrays(decode_piece(kind, base, part), EVENT_TYPES)


def redact_to_arrow(kind: str, base: int, part: bytes) -> dict[str, Any]:
    """Redacts and decodes one observation: what the gatherer and the decode stage do in all."""
    return decode_to_arrow(kind, base, redact(part))


def decode_piece(kind: str, base: int, part: bytes) -> EventColumns:
    """Decodes one observation."""
    if kind == "snapshot":
        return decode_snapshot_piece(part, end_offset=base, epoch=1)
    return decode_records(part, base_offset=base, last_offset=base, leader_epoch=1, high_watermark=base)


def split_into_pieces(content: bytes, batches: list[RecordBatch]) -> Iterator[tuple[int, bytes]]:
    """Yields pieces of whole batches, as observations hold them, each with its base offset."""
    start, base = 0, batches[0].base_offset
    for batch in batches:
        if batch.end - start > PIECE and batch.position > start:
            yield base, content[start : batch.position]
            start, base = batch.position, batch.base_offset
    yield base, content[start : batches[-1].end]


def cpu_seconds(parts: list[tuple[int, bytes]], run: Callable[[int, bytes], object]) -> float:
    """Returns the CPU seconds of one step over all pieces; each result is freed before the next."""
    before = time.process_time()
    for base, part in parts:
        run(base, part)
    return time.process_time() - before


if __name__ == "__main__":
    main(sys.argv[1:])
