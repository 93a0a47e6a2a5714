"""The files that a configuration names: unreadable ones, secrets that other users can read; and an open page.

Files of a sink are read when the sink is opened.
"""

import ipaddress
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from connectors.errors import UsageError
from connectors.settings.secret import Secret
from connectors.settings.sections import Section, host_port, readable
from rules.formatting import and_join
from streaming.config.cluster_section import ClusterSection
from streaming.config.root import Config

PUBLIC_FILES = frozenset({"work_dir", "path", "hosts_file", "ca_file", "ssl_cafile", "ssl_crlfile", "folder"})
"""The keys of paths that hold no secret; every other path is a file with a secret."""
_CERTIFICATES = {"ssl_certfile": "ssl_keyfile", "listen_certfile": "listen_keyfile"}
"""A certificate's file holds the key too, if the key has no file of its own."""


def exposures(config: Config, file: Path | None) -> Sequence[str]:
    """Returns a sentence for each file with a secret that other users can read, and for an open page.

    A file that this user only reads as a member of its group must be readable by the group, and is not reported. The
    configuration's own `file` may itself hold secrets.
    """
    files = dict[Path, str]()
    for key, secret in configured_secrets(config):
        if isinstance(secret, Path):
            files.setdefault(secret, key)
    if file is not None and (held := _secrets_in(file, config)):
        files[file] = f"the configuration holds {and_join(held)}"
    found = [f"{key}: {path} {how}: chmod 600 {path}" for path, key in files.items() if (how := _readable_by(path))]
    page = open_page(config)
    return found if page is None else [*found, page]


def open_page(config: Config) -> str | None:
    """Returns a sentence if other machines can reach the page without TLS or without a token; None if not."""
    page = config.page_access()
    missing = [
        *(["listen_certfile"] if page.certfile is None else []),
        *(["listen_token_file"] if page.token is None and page.read_token is None else []),
    ]
    if config.listen is None or not missing or _is_loopback(host_port(config.listen)[0]):
        return None
    return (
        f"listen: {config.listen} is not a loopback address, and others can read the page or its token: "
        f"set {' and '.join(missing)}, or listen on 127.0.0.1"
    )


def configured_secrets(value: object, key: str = "") -> Iterator[tuple[str, Path | Secret]]:
    """Yields each secret and each file with a secret, after its key."""
    match value:
        case Path():
            yield key, value
        case Secret():
            yield key, value.file or value
        case Section():
            place = f"cluster {value.name}: " if isinstance(value, ClusterSection) else f"{key}." if key else ""
            for name in type(value).model_fields:
                has_own_key_file = getattr(value, _CERTIFICATES.get(name, ""), None) is not None
                if name not in PUBLIC_FILES and not has_own_key_file:
                    yield from configured_secrets(getattr(value, name), f"{place}{name}")
        case Mapping():
            for item, each in value.items():
                yield from configured_secrets(each, f"{key}.{item}")
        case tuple():
            for at, each in enumerate(value):
                yield from configured_secrets(each, f"{key}.{at}")
        case _:
            pass


def _secrets_in(file: Path, config: Config) -> Sequence[str]:
    """Returns the keys of the secrets that the file itself holds: not of one from an environment variable."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ()
    inline = {key: one.text for key, one in configured_secrets(config) if isinstance(one, Secret)}
    return [key for key, secret in inline.items() if secret and secret in text]


def _readable_by(path: Path) -> str | None:
    try:
        status = path.stat()
    except OSError:
        return None
    if status.st_mode & stat.S_IROTH:
        return "is readable by every user of this machine"
    if status.st_mode & stat.S_IRGRP and status.st_uid == os.geteuid() != 0:
        return "is readable by its group"
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def unreadable(config: Config) -> Sequence[str]:
    """Returns a sentence for each file of a login, the heartbeat, OTLP or the page that cannot be used."""
    found = []
    for check in _file_checks(config):
        try:
            check()
        except UsageError as problem:
            found.append(str(problem))
    return found


def _file_checks(config: Config) -> Iterator[Callable[[], object]]:
    # With source: kafka the relays use the login of a cluster, on other machines.
    if config.source == "gatherer":
        yield from (section.cluster for section in config.clusters)
    if (relay := config.relay) is not None:
        files = {key: getattr(relay, key) for key in ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")}
        yield from (partial(readable, path, f"relay.{key}") for key, path in files.items() if path is not None)
        yield from (partial(secret.check, f"relay.{key}") for key, secret in relay.login_secrets.items())
    if config.heartbeat is not None:
        yield partial(config.heartbeat.url.check, "heartbeat.url")
    if (target := config.otlp_target()) is not None:
        yield target.check
    page = config.page_access()
    yield from (page.tls, page.check_tokens)
