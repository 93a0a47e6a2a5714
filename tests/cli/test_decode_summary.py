"""The summary of `kraftwatch data decode` of files that Kafka's own classes wrote."""

import json
import lzma
from pathlib import Path

import pytest

from tests.cli.program import kraftwatch
from tests.unit.connectors.metadata.metadata_bytes import DATA

NAME = "00000000000000000000.log"


@pytest.mark.parametrize(
    ("file", "name"), [("tinylog.log", NAME), ("tiny.checkpoint", "00000000000000024001-0000000042.checkpoint")]
)
def test_summary_has_the_counts_and_sums_of_the_generator(file: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(lzma.decompress((DATA / f"{file}.xz").read_bytes()))
    expected = json.loads((DATA / f"{file}.json").read_text())
    ended = kraftwatch("data", "decode", path, "--summary", "--json")
    summary = json.loads(ended.stdout)

    assert (ended.exit_code, ended.stderr) == (0, "")
    for key in ("file", "bytes", "data_records", "by_type", "control_records", "last_offset", "last_epoch"):
        assert summary[key] == expected.get(key, summary[key]), key
    sums = {key.removeprefix("final_"): value for key, value in expected.items() if key.startswith(("final_", "sum_"))}
    sums |= {key: expected[key] for key in ("topics", "partitions", "recovering", "no_leader") if key in expected}
    assert len(sums) >= 7
    assert summary.items() >= sums.items()
    assert summary["undecodable"] == 0
