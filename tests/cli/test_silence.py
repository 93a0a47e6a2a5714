"""`kraftwatch silence`: adds, lists and ends silences."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from connectors.store.collection import SilenceStore
from connectors.store.tables import job_database
from streaming.pipeline.checkpoint import Checkpoint
from tests.cli.program import json_lines, kraftwatch, owned_by_another_user, usage_error
from tests.unit.connectors.sinks.sink_alerts import alert


def silence(folder: Path, *words: str) -> Result:
    return kraftwatch("silence", *words, "--checkpoint", folder)


def listed(folder: Path) -> list[dict[str, Any]]:
    return json_lines(silence(folder, "list", "--json"))


def test_silence_is_added_listed_and_ended(tmp_path: Path) -> None:
    tmp_path = tmp_path / "a checkpoint"
    tmp_path.mkdir()
    added = silence(tmp_path, "add", "--rule", "stale-*", "--for", "2h", "--comment", "DNS move", "--author", "eva")
    silence_id = added.stdout.strip()
    assert re.fullmatch("[0-9a-f]{8}", silence_id)
    (one,) = listed(tmp_path)
    assert (one["id"], one["rule"], one["author"], one["active"]) == (silence_id, "stale-*", "eva", True)
    assert "rule stale-* eva DNS move" in " ".join(silence(tmp_path, "list").stdout.split())
    (printed,) = re.findall("`kraftwatch (.*?)`", " ".join(added.stderr.split()))
    assert kraftwatch(*shlex.split(printed)).exit_code == 0
    assert listed(tmp_path) == []
    assert silence_id in silence(tmp_path, "list", "--json", "--ended").stdout


def test_silence_has_the_given_duration_or_end(tmp_path: Path) -> None:
    for words, expected_ms in ((("--for", "90s"), 90_000), (("--for", "3d"), 259_200_000)):
        silence(tmp_path, "add", "--rule", "no-*", "--comment", "why", *words)
        added = SilenceStore(job_database(tmp_path)).read()[-1]
        assert added.ends_at_ms - added.starts_at_ms == expected_ms
    silence(tmp_path, "add", "--rule", "no-*", "--comment", "why", "--until", "2027-05-01T12:00:00+02:00")
    assert SilenceStore(job_database(tmp_path)).read()[-1].ends_at_ms == 1_809_165_600_000


def test_silence_of_an_author_or_a_comment_that_is_no_text_is_refused(tmp_path: Path) -> None:
    add = ("silence", "add", "--rule", "no-*", "--for", "1h", "--checkpoint", tmp_path, "--comment")
    assert usage_error(*add, "x\udcff") == "--comment: 'x\\udcff' is not UTF-8"
    assert usage_error(*add, "x", "--author", "\udcff") == "--author: '\\udcff' is not UTF-8"


def test_maintenance_window_in_force_is_listed_with_config(tmp_path: Path) -> None:
    # One of the two is active at any hour.
    windows = [{"from": at, "for": "13h", "clusters": ["lab"], "comment": "CHG-1"} for at in ("00:00", "12:00")]
    clusters = [{"name": "lab", "bootstrap": ["c1:9093"]}]
    file = tmp_path / "kraftwatch.yaml"
    file.write_text(json.dumps({"clusters": clusters, "checkpoint": str(tmp_path), "maintenance": windows}))

    of_config = json_lines(kraftwatch("silence", "list", "--json", "--config", file))

    found = {(one["cluster"], one["author"], one["comment"], one["active"]) for one in of_config}
    assert found == {("lab", "configuration", "CHG-1", True)}


def test_root_does_not_write_what_the_user_of_the_job_could_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = ("add", "--rule", "no-leader", "--for", "2h", "--comment", "why")
    silence_id = silence(tmp_path, *add).stdout.strip()
    owned_by_another_user(tmp_path, monkeypatch)

    for words in (add, ("end", silence_id)):
        message = usage_error("silence", *words, "--checkpoint", tmp_path)
        assert re.fullmatch(
            rf"checkpoint {re.escape(str(tmp_path))} belongs to user \S+, who could not read what root writes: "
            r"run this command as that user, for example with `sudo -u \S+`",
            message,
        )
    assert [one["id"] for one in listed(tmp_path)] == [silence_id]


def test_repeated_rules_and_clusters_are_one_silence_of_all_of_them(tmp_path: Path) -> None:
    Checkpoint(folder=tmp_path).record_cluster_ids({"prod": "id-1", "staging": "id-2", "lab": "id-3"})
    scope = ("--rule", "no-leader", "--rule", "voter-*", "--cluster", "prod", "--cluster", "stag*")

    silence_id = silence(tmp_path, "add", *scope, "--for", "2h", "--comment", "CHG-1").stdout.strip()

    stored = SilenceStore(job_database(tmp_path)).read()
    for cluster, rule, silenced in (
        ("prod", "no-leader", True),
        ("staging", "voter-lagging", True),
        ("prod", "broker-fenced", False),
        ("lab", "no-leader", False),
    ):
        one = alert(cluster=cluster, rule=rule)
        assert any(each.matches(one) for each in stored) is silenced, (cluster, rule)
    assert {each["id"] for each in listed(tmp_path)} == {silence_id}
    text = " ".join(silence(tmp_path, "list").stdout.split())
    assert text.count(silence_id) == 1
    assert "cluster prod or stag*, rule no-leader or voter-*" in text

    silence(tmp_path, "end", silence_id)

    assert listed(tmp_path) == []


def test_silence_may_name_a_cluster_of_the_configuration_or_the_job_itself(tmp_path: Path) -> None:
    file = tmp_path / "kraftwatch.yaml"
    new = [{"name": "new", "bootstrap": ["c1:9093"]}]
    file.write_text(json.dumps({"clusters": new, "checkpoint": str(tmp_path)}))
    add = ["silence", "add", "--for", "2h", "--comment", "CHG-1", "--config", str(file)]

    for cluster in ("new", "kraftwatch"):
        assert kraftwatch(*add, "--cluster", cluster).exit_code == 0
    problem = usage_error(*add, "--cluster", "old")
    assert problem == "--cluster: 'old' matches no cluster; known: kraftwatch, new"
