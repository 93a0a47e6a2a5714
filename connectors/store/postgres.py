"""PostgresDatabase: the job's database on a server, which jobs and commands on any machine share."""

import re
import ssl
from functools import partial
from typing import Any

import certifi
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError

from connectors.errors import StoreError, UnavailableStoreError, UsageError
from connectors.process.extras import Extra, require
from connectors.settings.secret import Secret, redact
from connectors.store.database import LACKS_TABLES, Database
from connectors.store.revisions import check_revision
from connectors.store.store_place import PostgresPlace

_CONNECT_S = 5
_CONNECTION = {
    "connect_timeout": _CONNECT_S,
    # A network that is cut must not hold a batch for the minutes of TCP's own timeouts.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "options": "-c statement_timeout=10s -c lock_timeout=10s -c idle_in_transaction_session_timeout=30s",
    "application_name": "kraftwatch",
}
_ENGINES: dict[PostgresPlace, Engine] = {}
_OPENED: set[tuple[PostgresPlace, bool]] = set()
"""The databases whose tables this process has checked, and whether only to read. A running job does not check them
again: a newer one, its standby, may upgrade them meanwhile."""
_MIGRATION_LOCK = 0x6B72_6166_7477
"""An advisory lock: two jobs that start at once create or upgrade the tables one after the other."""
_WRITE_LOCK = 0x6B72_6166_7478
"""An advisory lock: transactions that replace rows run one after the other, as all that write to a file do."""
_LOGIN = "it refuses the login: correct the user in store, store_password or the server's pg_hba.conf"
_REFUSALS = {
    "28": _LOGIN,
    "42P01": LACKS_TABLES,
    "42703": LACKS_TABLES,
    "42P07": "it has tables that kraftwatch did not create: give it an empty database",
    "42501": "the user may not do this: grant it the privileges that docs/operations.md lists",
    "25006": "it is read-only, a standby server: name the primary in store, or add target_session_attrs=read-write",
}
"""By the beginning of PostgreSQL's error code: what is wrong, and what to do."""
_LATER = ("08", "25006", "25P03", "40", "53", "55", "57")
"""Beginnings of codes that a later attempt may not meet: connection, a replica that is not the primary yet, a
transaction in which this process was stopped, conflict, resources, locks, shutdown."""
_REFUSED_CONNECTIONS = {
    "password authentication failed": _LOGIN,
    "no password supplied": _LOGIN,
    "no pg_hba.conf entry": _LOGIN,
    r"role \"[^\"]*\" does not exist": _LOGIN,
    r"database \"[^\"]*\" does not exist": "the database does not exist: create it, or correct the name in store",
    "does not support SSL": "the server does not support SSL: turn it on, or add ?sslmode=disable to store where the "
    "network is trusted",
    "certificate": "its certificate is not accepted: correct sslrootcert in store, or the server's certificate",
}
"""By a pattern in the server's or libpq's message: an attempt to connect has no code."""


class PostgresDatabase(Database):
    """A database of a server. Its tables are in the first schema of the user's search path."""

    def __init__(self, place: PostgresPlace, *, read_only: bool = False) -> None:
        """Connects to nothing yet. Raises UsageError if the driver is not installed."""
        super().__init__(f"the store {place}")
        require(Extra.POSTGRES, self.place)
        self._at = place
        self._read_only = read_only

    def close(self) -> None:
        """Closes nothing: other parts of the process may use the same connections (`close_connections`)."""

    def wait_for_writers(self, connection: Connection) -> None:
        """As `Database.wait_for_writers`."""
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITE_LOCK})")

    def _engine(self, *, writes: bool) -> Engine:
        engine = _engine(self._at)
        reading = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        opened = self._at, self._read_only
        if opened not in _OPENED and (writes or self._read_only):
            with (reading if self._read_only else engine).begin() as connection:
                if check_revision(connection, self.place) is None and not self._read_only:
                    self._migrate(connection)
            _OPENED.add(opened)
        return engine if writes else reading

    def _migrate(self, connection: Connection) -> None:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
        # A migration may take longer than any other statement.
        connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
        super()._migrate(connection)

    def _error(self, error: DBAPIError) -> StoreError:
        code = getattr(error.orig, "sqlstate", None)
        reason = redact(str(error.orig).strip().partition("\n")[0])
        if code is None:
            refusal = next((text for part, text in _REFUSED_CONNECTIONS.items() if re.search(part, reason)), None)
        else:
            refusal = next((text for beginning, text in _REFUSALS.items() if code.startswith(beginning)), None)
        later = refusal is None if code is None else code.startswith(_LATER)
        if refusal is None and later:
            return UnavailableStoreError(f"{self.place} does not answer: {reason}")
        kind = UnavailableStoreError if later else StoreError
        return kind(f"{self.place} cannot be used: {refusal or reason}")


def close_connections() -> None:
    """Closes all connections of this process to PostgreSQL servers, and forgets the servers."""
    _OPENED.clear()
    while _ENGINES:
        _ENGINES.popitem()[1].dispose()


def _engine(place: PostgresPlace) -> Engine:
    """Returns the process's one pool of connections to a database."""
    known = _ENGINES.get(place)
    if known is None:
        known = _ENGINES.setdefault(place, _new_engine(place))
    return known


def _new_engine(place: PostgresPlace) -> Engine:
    url = make_url(place.url).set(drivername="postgresql+psycopg")
    arguments: dict[str, Any] = dict(_CONNECTION)
    if url.host is not None and not url.host.startswith("/"):
        arguments |= {name: value for name, value in _verified_tls().items() if name not in url.query}
    engine = create_engine(url, connect_args=arguments, pool_pre_ping=True, pool_size=5, max_overflow=5)
    if place.password is not None:
        event.listen(engine, "do_connect", partial(_set_password, place, place.password))
    return engine


def _set_password(
    place: PostgresPlace, password: Secret, dialect: object, record: object, args: object, parameters: dict[str, Any]
) -> None:
    """Reads the password at each connection: a replaced one needs no restart."""
    try:
        parameters["password"] = password.read()
    except UsageError as problem:
        # It may be there again in a moment: secrets are replaced while jobs run.
        raise UnavailableStoreError(f"the store {place} cannot be used: {problem}") from None


def _verified_tls() -> dict[str, str]:
    """Returns libpq's settings for TLS with a verified certificate and host name."""
    # libpq's "system" is where its own OpenSSL was built to look, which is not where this system has its certificates.
    system = ssl.get_default_verify_paths().cafile
    return {"sslmode": "verify-full", "sslrootcert": system or certifi.where()}
