"""`kraftwatch export`: each mistake is one sentence, before Spark starts."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from connectors.errors import UsageError
from streaming.cli import app

CONFIG = """\
clusters:
- {name: prod, bootstrap: ["c1.example:9093"]}
source: kafka
relay: {bootstrap: ["k1.example:9092"], topic: observations}
"""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "give --config FILE or --checkpoint DIR, but not both"),
        (["--checkpoint", "nowhere"], "--checkpoint nowhere: no such folder"),
        (["--checkpoint", ".", "--to", "gs://bucket/x"], "--to: the scheme gs is not supported"),
        (["--checkpoint", ".", "--to", "s3a://key:secret@bucket/x"], "--to: expected no login in it"),
        (["--checkpoint", ".", "--to", "file"], "--to file: file exists; give a writable folder"),
        (["--checkpoint", ".", "--table", "records"], "--table records: there is no such table; the tables are alerts"),
        (["--checkpoint", ".", "--since", "noon"], "--since noon: expected a TIME such as"),
        (["--checkpoint", ".", "--since", "2026-11-20", "--until", "2026-11-20"], "--until is not after --since"),
        (["--checkpoint", "."], "./journal holds no journal: name"),
        (["--config", "job.yaml"], "cluster prod: its id is not known: set its cluster_id, or start the job first"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage_error_is_one_sentence(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("job.yaml").write_text(CONFIG)

    problem = CliRunner().invoke(app, ["export", *(words if "--to" in words else [*words, "--to", "lake"])]).exception

    assert isinstance(problem, UsageError)
    assert str(problem).replace(str(tmp_path), ".").startswith(sentence)
