"""Writes batches with ascending offsets until it is killed: `python endless_writer.py FOLDER SEED`.

Each start continues at the journal's follow position, as the gatherer does.
"""

import random
import sys
from pathlib import Path

from connectors.store.journal_writer import JournalWriter
from tests.unit.connectors.store.journal_rows import batch, poll, records


def main(directory: Path, seed: int) -> None:
    rng = random.Random(seed)
    with JournalWriter(directory, keep_bytes=100_000) as writer:
        position = writer.follow_progress("alpha")
        offset = (position.next_offset or 0) if position else 0
        now_ms = position.observed_at_ms if position else 0
        while True:
            for _ in range(rng.randrange(1, 20)):
                now_ms += 1
                size = rng.randrange(1, 4)
                batches = [batch(at, epoch=at // 10) for at in range(offset, offset + size)]
                writer.append(
                    [
                        records(*batches, base=offset, last=offset + size - 1, at_ms=now_ms),
                        poll(now_ms, payload=b"x" * rng.randrange(3000)),
                    ]
                )
                offset += size
            writer.publish()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
