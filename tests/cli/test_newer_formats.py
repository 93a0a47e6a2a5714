"""What a newer kraftwatch has stored on a server; `transcripts/newer_formats.txt` has its files."""

import json
from contextlib import closing
from pathlib import Path

from sqlalchemy import update

from connectors.store.postgres import close_connections
from connectors.store.revisions import REVISIONS
from connectors.store.store_place import StorePlace
from connectors.store.tables import job_database
from tests.cli.program import usage_error
from tests.postgres_server import PostgresServer, needs_postgres

NEWER = "9999"
RULE = ("--rule", "no-*", "--for", "1h", "--comment", "why")


def upgrade(place: StorePlace) -> None:
    """Gives the tables the revision of a newer version."""
    with closing(job_database(place)) as database, database.transaction() as connection:
        connection.execute(update(REVISIONS).values(version_num=NEWER))


@needs_postgres
def test_newer_tables_in_the_store_are_refused_in_one_sentence(tmp_path: Path) -> None:
    with PostgresServer() as server:
        place = server.database("one")
        upgrade(place)
        close_connections()
        file = tmp_path / "kraftwatch.yaml"
        clusters = [{"name": "cert", "bootstrap": ["127.0.0.1:1"]}]
        file.write_text(json.dumps({"clusters": clusters, "checkpoint": str(tmp_path / "new"), "store": place.url}))
        for words in (("run",), ("silence", "add", *RULE), ("silence", "list")):
            refused = usage_error(*words, "--config", file)
            assert refused.startswith(f"the store {place} has tables of revision {NEWER}, and this kraftwatch knows ")
            close_connections()
        assert server.sql("SELECT version_num FROM alembic_version", "one") == NEWER
