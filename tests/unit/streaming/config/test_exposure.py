"""Warnings about what a configuration exposes: files with secrets that others can read, and an open page."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from streaming.config import Config, load
from streaming.config.exposure import PUBLIC_FILES, exposures, open_page
from tests.unit.streaming.config.section_models import all_models, types_in

CLUSTER: dict[str, Any] = {"name": "prod", "bootstrap": ["c1:9093"]}
SECRET = "do-not-print-me"


def write(folder: Path, mode: int = 0o600, **keys: Any) -> Path:
    file = folder / "kraftwatch.yaml"
    file.write_text(yaml.safe_dump({"clusters": [CLUSTER], **keys}))
    file.chmod(mode)
    return file


def secret(folder: Path, name: str, mode: int) -> str:
    file = folder / name
    file.write_text(SECRET)
    file.chmod(mode)
    return str(file)


def warnings(file: Path) -> list[str]:
    found = [*exposures(load(file), file)]
    assert SECRET not in "".join(found)
    return found


def test_files_with_secrets_that_every_user_can_read_are_reported_once_with_the_command(tmp_path: Path) -> None:
    password = secret(tmp_path, "password", 0o644)
    hook = secret(tmp_path, "hook", 0o604)
    header = secret(tmp_path, "header", 0o606)
    token = secret(tmp_path, "token", 0o644)
    ca = secret(tmp_path, "ca.pem", 0o644)
    login = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_plain_username": "u", "ssl_cafile": ca}
    file = write(
        tmp_path,
        clusters=[CLUSTER, {**CLUSTER, "name": "other", "bootstrap": ["o1:9093"]}],
        defaults={**login, "sasl_plain_password": {"file": password}},
        sinks=[{"webhook": {"url": {"file": hook}, "headers": {"Authorization": {"file": header}}}}],
        heartbeat={"url": {"file": secret(tmp_path, "heartbeat", 0o600)}},
        listen_token_file=token,
    )

    every = "is readable by every user of this machine: chmod 600"
    assert sorted(warnings(file)) == sorted(
        [
            f"defaults.sasl_plain_password: {password} {every} {password}",
            f"sinks.0.webhook.url: {hook} {every} {hook}",
            f"sinks.0.webhook.headers.Authorization: {header} {every} {header}",
            f"listen_token_file: {token} {every} {token}",
        ]
    )


@pytest.mark.parametrize(
    ("mode", "hook", "reported"), [(0o644, SECRET, True), (0o600, SECRET, False), (0o644, "${HOOK}", False)]
)
def test_configuration_that_holds_a_secret_itself_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, hook: str, reported: bool
) -> None:
    monkeypatch.setenv("HOOK", SECRET)
    file = write(tmp_path, mode, sinks=[{"webhook": {"url": f"https://hook.example/{hook}"}}])

    assert any("the configuration holds sinks.0.webhook.url: " in each for each in warnings(file)) is reported


@pytest.mark.parametrize(("own_key_file", "reported"), [(False, True), (True, False)])
def test_certificate_is_a_secret_if_it_holds_the_key(tmp_path: Path, own_key_file: bool, reported: bool) -> None:
    certificate = secret(tmp_path, "page.pem", 0o644)
    keyfile = secret(tmp_path, "page.key", 0o600) if own_key_file else None
    file = write(tmp_path, listen_certfile=certificate, listen_keyfile=keyfile)

    assert any(certificate in each for each in warnings(file)) is reported


@pytest.mark.parametrize(("owner", "reported"), [(1000, True), (1001, False), (0, False)])
def test_file_of_this_user_that_its_group_can_read_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, reported: bool
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    token = secret(tmp_path, "token", 0o640)
    os.chown(token, owner, owner)
    file = write(tmp_path, listen_token_file=token)
    config = load(file)
    monkeypatch.setattr(os, "geteuid", lambda: 0 if owner == 0 else 1000)

    assert [each for each in exposures(config, None) if "by its group" in each] == (
        [f"listen_token_file: {token} is readable by its group: chmod 600 {token}"] if reported else []
    )


@pytest.mark.parametrize("listen", ["127.0.0.1:9847", "[::1]:9847", "localhost:9847", "0.0.0.0:9847", "[::]:9847"])
def test_page_that_other_machines_can_read_is_reported(listen: str) -> None:
    whole = {"listen": listen, "listen_certfile": "c", "listen_token_file": "t"}
    assert open_page(Config.model_validate({"clusters": [CLUSTER], **whole})) is None
    for given, missing in (
        ({}, "listen_certfile and listen_token_file"),
        ({"listen_token_file": "t"}, "listen_certfile"),
        ({"listen_read_token_file": "t"}, "listen_certfile"),
        ({"listen_certfile": "c"}, "listen_token_file"),
    ):
        page = open_page(Config.model_validate({"clusters": [CLUSTER], "listen": listen, **given}))
        if listen.startswith(("127", "[::1]", "localhost")):
            assert page is None
            continue
        assert page is not None
        assert page.startswith(f"listen: {listen} is not a loopback address")
        assert page.endswith(f": set {missing}, or listen on 127.0.0.1")


def test_every_path_of_the_configuration_is_public_or_a_secret() -> None:
    """A new key of a path must be classified: otherwise it would be reported as a secret by mistake."""
    secrets = {"ssl_certfile", "ssl_keyfile", "listen_certfile", "listen_keyfile", "listen_token_file"}
    secrets |= {"listen_read_token_file", "listen_witness_token_file"}
    secrets.add("sasl_oauth_token_file")

    paths = {
        name
        for model in all_models(Config)
        for name, field in model.model_fields.items()
        if Path in types_in(field.annotation)
    }
    assert paths == secrets | PUBLIC_FILES
