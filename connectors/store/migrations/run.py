"""Brings the tables of a database to the newest version, with Alembic."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, MetaData

from connectors.errors import StoreError


def alembic_config(connection: Connection) -> Config:
    """Returns Alembic's settings for one connection, whose transaction its caller commits."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def upgrade(connection: Connection, tables: MetaData) -> None:
    """Executes the versions that the database does not have yet; `tables`: those of the newest version.

    Raises:
        StoreError: the tables are of a newer version than this program.
    """
    config = alembic_config(connection)
    config.attributes["tables"] = tables
    try:
        command.upgrade(config, "head")
    except CommandError:
        raise StoreError(
            "the tables in the database are of a newer version of kraftwatch: start that version, or restore a backup"
        ) from None
