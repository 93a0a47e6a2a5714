"""Configurations that are refused: YAML, `----`, each sentence. `make goldens` writes the sentences: read them."""

import re
from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.settings.sections import Form
from streaming.config import Config, load
from streaming.config.loading import mistakes
from tests.golden_file import assert_golden
from tests.unit.streaming.config.section_models import all_models

CASES = Path(__file__).parent / "refused"
SECRET = "do-not-print-me"
AROUND = {
    "files": "{}",
    "keys": 'clusters:\n- {{name: prod, bootstrap: ["c1:9093"]}}\n{}',
    "of_a_cluster": "clusters:\n- {{name: a, bootstrap: [c1:1], {}}}\n",
    "sinks": 'clusters:\n- {{name: prod, bootstrap: ["c1:9093"]}}\nsinks:\n- {}',
}
"""The file in whose place `{}` a case of refused/NAME.txt is written; so the line of a sentence is one of that file."""


def refused(text: str, path: Path) -> list[str]:
    """Returns what is wrong with the file, of which the job prints the first."""
    path.write_text(text)
    with pytest.raises(UsageError) as problem:
        load(path)
    found = mistakes(path)
    assert str(problem.value) == found[0]
    return [each.removeprefix(f"{path}: ") for each in found]


@pytest.mark.parametrize("name", AROUND)
def test_invalid_configuration_is_refused_in_one_sentence_with_its_line_and_without_its_secret(
    name: str, tmp_path: Path
) -> None:
    golden = CASES / f"{name}.txt"
    title, *blocks = golden.read_text().rstrip().split("\n\n")
    cases = []
    for block in blocks:
        yaml, separator, _ = block.partition("\n----")
        assert separator, f"a case has YAML, ---- and its sentences: {block}"
        lines = [line for line in yaml.splitlines() if not line.startswith("# ")]
        sentences = refused(AROUND[name].format("\n".join(lines)), tmp_path / "kraftwatch.yaml")
        for sentence in sentences:
            assert re.match(r"line \d+: [^\n]+$", sentence), sentence
            assert SECRET not in sentence
        cases.append("\n".join([yaml, "----", *sentences]))

    assert_golden(golden, "\n\n".join([title, *cases]))


def test_every_file_of_cases_is_read() -> None:
    assert {path.stem for path in CASES.iterdir()} == {*AROUND}


def test_no_pattern_of_the_configuration_is_without_its_sentence() -> None:
    fields = [field for model in all_models(Config) for field in model.model_fields.values()]
    forms = [each for field in fields for each in field.metadata if getattr(each, "pattern", None) is not None]
    assert [each for each in forms if not isinstance(each, Form)] == []
