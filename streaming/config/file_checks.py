"""Checks of the files that a configuration names. Files of a sink are checked when the sink is opened."""

from collections.abc import Sequence

from connectors.errors import UsageError
from connectors.settings import readable
from streaming.config.relay_section import RelaySection
from streaming.config.root import Config


def unreadable(config: Config) -> Sequence[str]:
    """Returns a sentence for each file of a login, of the heartbeat or of the page that cannot be used."""
    found = []
    # With source: kafka the relays use the login of a cluster, on other machines.
    for section in config.clusters if config.source == "gatherer" else ():
        try:
            section.cluster()
        except UsageError as problem:
            found.append(str(problem))
    if config.relay is not None:
        found += _unreadable_login(config.relay)
    if config.heartbeat is not None and config.heartbeat.url_file is not None:
        try:
            readable(config.heartbeat.url_file, "heartbeat.url_file")
        except UsageError as problem:
            found.append(str(problem))
    for check in (config.page_access().tls, config.page_access().check_token):
        try:
            check()
        except UsageError as problem:
            found.append(str(problem))
    return found


def _unreadable_login(relay: RelaySection) -> Sequence[str]:
    found = []
    for key in ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile"):
        path = getattr(relay, key)
        try:
            if path is not None:
                readable(path, f"relay.{key}")
        except UsageError as problem:
            found.append(str(problem))
    connection = relay.connection()
    secrets = (("sasl_plain_password", connection.password), ("ssl_password", connection.key_password))
    for key, secret in (*secrets, ("sasl_oauth_token", connection.token)):
        try:
            if secret is not None:
                secret.read()
        except UsageError as problem:
            found.append(f"relay.{key}_file: {problem}")
    return found
