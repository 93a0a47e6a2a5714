"""Each kind of sink is opened under a name that stays."""

from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.secret import Secret
from connectors.sinks.sink import Sink, Style
from connectors.sinks.sink_config import Console, Jsonl, Place, Wanted, Webhook
from connectors.sinks.sink_factory import open_sink
from rules.finding import Severity
from rules.notifications.route import Route


def opened(place: Place, tmp_path: Path, name: str | None = None) -> Sink:
    wanted = Wanted(place=place, name=name, route=Route(min_severity=Severity.CRITICAL), repeat_s=60)
    return open_sink(wanted, memory=tmp_path)


def test_a_record_keeps_its_name_and_repeats_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert opened(Console(), tmp_path).terms.name == "console"
    file = opened(Jsonl(path=Path("a:b.jsonl")), tmp_path).terms
    assert (file.name, file.style, file.repeat_s) == (f"jsonl:{tmp_path}/a:b.jsonl", Style.EACH, None)
    assert file.route == Route(min_severity=Severity.CRITICAL)
    assert (tmp_path / "a:b.jsonl").exists()


@pytest.mark.parametrize(
    ("place", "name"),
    [(Webhook(url=Secret(text="https://eva:hunter2@hooks.example.com:8443/s3cret")), "webhook:hooks.example.com:8443")],
)
def test_a_sink_for_people_is_named_without_its_secrets(place: Place, name: str, tmp_path: Path) -> None:
    terms = opened(place, tmp_path).terms
    assert (terms.name, terms.style, terms.repeat_s) == (name, Style.INCIDENTS, 60)
    assert "hunter2" not in repr(place)
    assert opened(place, tmp_path, name="pager").terms.name == "pager"


def test_a_place_that_cannot_be_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"The sink jsonl:/no/such/folder/x cannot be written: No such file"):
        opened(Jsonl(path=Path("/no/such/folder/x")), tmp_path)
    with pytest.raises(UsageError, match="cannot read /no/such/file: no such file or directory"):
        opened(Webhook(url=Secret(file=Path("/no/such/file"))), tmp_path)
    with pytest.raises(UsageError, match="write https://HOST/PATH") as refused:
        opened(Webhook(url=Secret(text="ftp://eva:hunter2@x/")), tmp_path)
    assert "hunter2" not in str(refused.value)
