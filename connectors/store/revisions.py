"""The revision of a database's tables, and their upgrade to the newest one, by Alembic (`migrations/versions`)."""

import logging
import threading

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select

from connectors.errors import OtherTablesError
from rules.formatting import visible

_LOG = logging.getLogger(__name__)
REVISION = "0003"
"""The newest revision: that of `connectors.store.tables`. They are numbered from 0001 on."""
MIGRATIONS = "connectors.store:migrations"
"""Where Alembic finds the migrations: package and folder."""
REVISIONS = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
"""Has one row: the revision of the tables."""
_MIGRATING = threading.Lock()
"""A migration reads its connection from Alembic's global `op`."""


def check_revision(connection: Connection, place: str) -> str | None:
    """Returns the revision of the tables; None if there are none. `place`: of the database, for a sentence.

    Raises:
        OtherTablesError: this build does not know it.
    """
    found = connection.scalar(select(REVISIONS)) if inspect(connection).has_table(REVISIONS.name) else None
    require_known(found, place)
    return found


def require_known(found: str | None, place: str) -> None:
    """Raises OtherTablesError if this build does not know a revision."""
    if found is not None and str(found) not in {f"{number:04}" for number in range(1, int(REVISION) + 1)}:
        raise OtherTablesError(
            f"{place} has tables of revision {visible(str(found))}, and this kraftwatch knows those up to {REVISION}: "
            "use the kraftwatch that upgraded them, or a newer one; its alerts and silences stay there"
        )


def migrate(connection: Connection, place: str, revision: str | None = None) -> None:
    """Creates the tables, or upgrades them, to a revision, by default the newest, in the connection's transaction.

    Raises:
        OtherTablesError: this build does not know their revision.
    """
    revision = revision or REVISION
    found = check_revision(connection, place)
    if found == revision:
        return
    # Imported here: it takes 0.15 s, and databases are rarely created or upgraded.
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", MIGRATIONS)
    with _MIGRATING:
        command.upgrade(config, revision)
    if found is not None:
        _LOG.warning("%s: its tables are upgraded from revision %s to %s", place, found, revision)
