"""Where the job's database is: a SQLite file in a folder, or a PostgreSQL server. Imports no database library."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

from connectors.settings.secret import Secret

_SCHEMES: Final = ("postgresql", "postgres")
_OPTIONS: Final = ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "target_session_attrs")
"""Of libpq, as the URL may give them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresPlace:
    """A database of a PostgreSQL server."""

    url: str
    """Without a password."""
    password: Secret | None = None

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.netloc.rpartition('@')[2] or 'the local socket'}{parts.path}"


StorePlace: TypeAlias = Path | PostgresPlace
"""A folder, whose file is `kraftwatch.db`; or a database of a server."""


def check_url(url: str) -> None:
    """Checks the URL of a database without a connection.

    Raises:
        ValueError: what is wrong with it and what to do, as part of a sentence.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("is not a URL: write postgresql://USER@HOST:PORT/DATABASE") from None
    if port == 0 or not url.isprintable():
        raise ValueError("is not a URL: write postgresql://USER@HOST:PORT/DATABASE")
    if parts.scheme not in _SCHEMES:
        raise ValueError("should begin with postgresql://")
    if parts.password is not None:
        raise ValueError("must not contain a password: give it in store_password")
    if not parts.path.strip("/"):
        raise ValueError("names no database: postgresql://USER@HOST:PORT/DATABASE")
    unknown = sorted(parse_qs(parts.query, keep_blank_values=True).keys() - set(_OPTIONS))
    if unknown:
        raise ValueError(f"has the unknown option {unknown[0]}: possible are {', '.join(_OPTIONS)}")
