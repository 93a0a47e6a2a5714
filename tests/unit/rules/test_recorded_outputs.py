"""What `make outputs` compares: every line that people or programs read of a quorum."""

import gzip
from pathlib import Path

from tests.agreement.recorded_outputs import differences, record, sources

SOURCE = "case-observer-lagging"


def test_a_changed_line_is_a_difference_of_its_quorum(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    names = sources([SOURCE])
    assert names == [SOURCE]
    assert record(before, names) == record(after, names) > 10
    assert [*differences(before, after, names)] == []

    file = after / f"{SOURCE}.gz"
    text = gzip.decompress(file.read_bytes()).decode()
    line = next(line for line in text.splitlines() if line.startswith("status leader_id: "))
    file.write_bytes(gzip.compress(text.replace(line, "status leader_id: 9", 1).encode()))

    block, *lines = differences(before, after, names)
    assert block.startswith(f"== {SOURCE} observer-lagging-")
    assert [one for one in lines if one[0] in "+-"] == [f"-{line}", "+status leader_id: 9"]


def test_cases_scripts_and_simulations_have_outputs() -> None:
    assert {name.partition("-")[0] for name in sources([""])} == {"case", "script", "seed"}
