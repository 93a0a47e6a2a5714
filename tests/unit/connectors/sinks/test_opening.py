"""`--sink` says which."""

from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.sinks.opening import open_sink


def test_known_sinks_are_opened_under_a_name_that_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_sink("console").name == "console"
    assert open_sink("jsonl:a:b.jsonl").name == f"jsonl:{tmp_path}/a:b.jsonl"
    assert (tmp_path / "a:b.jsonl").exists()


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("pager:https://user:hunter2@x/secret", "--sink 'pager' is not known; known are jsonl:PATH and console."),
        ("", "--sink '' is not known; known are jsonl:PATH and console."),
        ("jsonl:", "--sink jsonl names no file; known are jsonl:PATH and console."),
        ("console:red", "--sink console takes nothing behind it."),
        ("jsonl:/no/such/folder/x", "The sink jsonl:/no/such/folder/x cannot be written: No such file or directory; "),
    ],
)
def test_anything_else_is_one_sentence(spec: str, sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        open_sink(spec)
    assert str(refused.value).startswith(sentence)
    assert "secret" not in str(refused.value)
