"""The places of a store: a file, and a PostgreSQL server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.store.postgres import close_connections
from connectors.store.store_place import StorePlace
from tests.postgres_server import PostgresServer, needs_postgres


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["SQLite", pytest.param("PostgreSQL", marks=needs_postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StorePlace]:
    if request.param == "SQLite":
        yield tmp_path
        return
    server: PostgresServer = request.getfixturevalue("server")
    yield server.database(f"a{abs(hash(request.node.name))}")
    close_connections()
