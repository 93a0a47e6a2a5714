"""A fleet in one file: defaults, monitored clusters, and values from the environment."""

from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.settings.secret import Secret
from rules.finding import Severity
from streaming.cli.config_from_options import resolve_config
from streaming.cli.options import ConfigOptions
from streaming.config import Config, load

FLEET = """
defaults:
  security_protocol: SASL_SSL
  sasl_mechanism: PLAIN
  sasl_plain_username: kraftwatch
  sasl_plain_password: {file: /run/secrets/fleet}
  resolve: {a.example: 10.0.0.1, b.example: 10.0.0.2}
clusters:
- name: prod-eu
  bootstrap: ["eu.example:9093"]
- name: prod-us
  bootstrap: ["us.example:9093"]
  sasl_plain_password: of its own
  resolve: {b.example: 10.9.9.9}
  thresholds: {no-leader: {hold: 20}}
- name: lab
  bootstrap: ["lab.example:9093"]
  security_protocol: PLAINTEXT
  sasl_mechanism: null
  rules: {no-leader: {severity: warning}, broker-fenced: {enabled: true}}
watch: ["prod-*", "!*-us"]
thresholds: {no-leader: {hold: 7}, alerts: {clear: 3}}
rules: {no-leader: {severity: critical}, broker-fenced: {severity: info, enabled: false}}
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    return path


def resolved(path: Path, *, only: list[str] | None = None, setting: list[str] | None = None) -> Config:
    return resolve_config(ConfigOptions(config=path, setting=setting, only=only))


def test_defaults_apply_to_each_cluster_and_its_own_values_win(fleet: Path) -> None:
    eu, us, lab = load(fleet).clusters

    assert (eu.security_protocol, us.security_protocol, lab.security_protocol) == ("SASL_SSL", "SASL_SSL", "PLAINTEXT")
    assert eu.resolve == {"a.example": "10.0.0.1", "b.example": "10.0.0.2"}
    assert us.resolve == {"a.example": "10.0.0.1", "b.example": "10.9.9.9"}
    assert eu.sasl_plain_password == Secret(file=Path("/run/secrets/fleet"))
    assert us.cluster().options["sasl_plain_password"] == "of its own"


def test_watch_selects_clusters_and_only_replaces_what_it_includes(fleet: Path) -> None:
    assert [section.name for section in load(fleet).watched] == ["prod-eu"]
    assert [section.name for section in resolved(fleet, only=["lab"]).watched] == ["lab"]
    with pytest.raises(UsageError, match=r"--only prod matches none of the clusters: prod-eu, prod-us, lab"):
        resolved(fleet, only=["prod"])
    with pytest.raises(UsageError, match="watch: its patterns with ! leave no cluster"):
        resolved(fleet, only=["prod-us"])


def test_only_takes_several_names_and_patterns() -> None:
    def watched(*only: str) -> list[str]:
        clusters = ["prod-eu=h:1", "prod-us=h:2", "test=h:3"]
        config = resolve_config(ConfigOptions(cluster=clusters, only=list(only)))
        return [section.name for section in config.watched]

    assert watched("prod-eu,test") == ["prod-eu", "test"]
    assert watched("prod-*, test") == ["prod-eu", "prod-us", "test"]
    assert watched("prod-us", "test") == ["prod-us", "test"]
    assert watched("!*-us") == ["prod-eu", "test"]
    assert watched("prod-*,!*-us") == ["prod-eu"]


def test_a_clusters_thresholds_override_the_common_ones_and_an_option_overrides_both(fleet: Path) -> None:
    def hold(config: Config, at: int) -> tuple[float, float]:
        numbers = config.thresholds_in_force(config.clusters[at])["no-leader"].values
        return numbers["hold"], numbers["clear"]

    config = load(fleet)
    assert (hold(config, 0), hold(config, 1)) == ((7, 3), (20, 3))
    config = resolved(fleet, setting=["no-leader.hold=1"])
    assert (hold(config, 0), hold(config, 1)) == ((1, 3), (1, 3))


def test_the_environment_is_expanded_in_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("${HOME}\n")
    monkeypatch.setenv("C1", "c1.example")
    monkeypatch.setenv("HOLD", "9")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("NESTED", "${C1}")
    monkeypatch.delenv("NOWHERE", raising=False)
    path = tmp_path / "kraftwatch.yaml"
    path.write_text(
        f"""
        clusters:
        - name: ${{NOWHERE:-prod}}
          bootstrap: ["${{C1}}:9093", "${{EMPTY:-c2}}:9093"]
          security_protocol: SASL_SSL
          sasl_mechanism: PLAIN
          sasl_plain_username: a$b${{EMPTY}}$${{C1}}${{NESTED}}
          sasl_plain_password: {{file: {secret}}}
        thresholds: {{no-leader: {{hold: "${{HOLD}}"}}}}
        """
    )

    config = load(path)
    (section,) = config.clusters

    assert (section.name, section.bootstrap) == ("prod", ("c1.example:9093", "c2:9093"))
    assert section.sasl_plain_username == "a$b${C1}${C1}"
    assert config.overrides() == {"no-leader.hold": 9.0}
    assert section.cluster().options["sasl_plain_password_file"] == str(secret)


def test_yaml_merges_maps(tmp_path: Path) -> None:
    path = tmp_path / "kraftwatch.yaml"
    path.write_text(
        """clusters:
- &first
  name: a
  bootstrap: ["c1:9093"]
- <<: *first
  name: b
  bootstrap: ["b1:9093"]
- <<: [{name: c}, {name: d, bootstrap: ["d1:9093"]}]
"""
    )

    assert [(each.name, each.bootstrap) for each in load(path).clusters] == [
        ("a", ("c1:9093",)), ("b", ("b1:9093",)), ("c", ("d1:9093",)),
    ]  # fmt: skip


def test_rules_of_a_cluster_override_the_common_ones_key_by_key(fleet: Path) -> None:
    for config in (load(fleet), resolved(fleet)):
        prod, _, lab = (config.thresholds_in_force(section) for section in config.clusters)
        assert (prod["no-leader"].severity, lab["no-leader"].severity) == (Severity.CRITICAL, Severity.WARNING)
        assert (prod["broker-fenced"].enabled, lab["broker-fenced"].enabled) == (False, True)
        assert (prod["broker-fenced"].severity, lab["broker-fenced"].severity) == (Severity.INFO, Severity.INFO)
        assert (prod["voter-lagging"].severity, prod["voter-lagging"].enabled) == (None, True)
        assert prod["no-leader"].values == lab["no-leader"].values
