"""Brings the tables of a database to the newest version, with Alembic."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection

from connectors.errors import StoreError


def alembic_config(connection: Connection) -> Config:
    """Returns Alembic's settings for one connection, whose transaction its caller commits."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def upgrade(connection: Connection) -> None:
    """Executes the versions that the database does not have yet.

    Raises:
        StoreError: the tables are of a newer version than this program.
    """
    try:
        command.upgrade(alembic_config(connection), "head")
    except CommandError:
        raise StoreError(
            "the tables in the database are of a newer version of kraftwatch: start that version, or restore a backup"
        ) from None
