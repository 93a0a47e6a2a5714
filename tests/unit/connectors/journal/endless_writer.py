"""Writes batches of ever growing offsets until it is killed: `python endless_writer.py FOLDER SEED`.

Each start goes on where the journal says that the follower stands, as the gatherer does.
"""

import random
import sys
from pathlib import Path

from connectors.journal.writer import Recorder
from tests.unit.connectors.journal.journal_rows import batch, poll, records


def main(directory: Path, seed: int) -> None:
    chance = random.Random(seed)
    with Recorder(directory, segment_bytes=20_000, keep_bytes=100_000) as recorder:
        progress = recorder.last("alpha")
        offset = (progress.next_offset or 0) if progress else 0
        now_ms = progress.observed_at_ms if progress else 0
        while True:
            for _ in range(chance.randrange(1, 20)):
                now_ms += 1
                size = chance.randrange(1, 4)
                batches = [batch(at, epoch=at // 10) for at in range(offset, offset + size)]
                recorder.append(
                    [
                        records(*batches, base=offset, last=offset + size - 1, at_ms=now_ms),
                        poll(now_ms, payload=b"x" * chance.randrange(3000)),
                    ]
                )
                offset += size
            recorder.publish()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
