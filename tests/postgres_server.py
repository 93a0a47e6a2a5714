"""A PostgreSQL server on loopback, from Debian's package, in a folder of its own."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from connectors.store.store_place import PostgresPlace


def _program(name: str) -> str | None:
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(installed[-1]) if installed else shutil.which(name)


needs_postgres = pytest.mark.debian("postgresql")


class PostgresServer:
    """Started while entered. As root it runs as another user, because PostgreSQL refuses to run as root."""

    def __init__(self) -> None:
        self._user = "postgres" if os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="kraftwatch-pg-"))
        if self._user is not None:
            account = pwd.getpwnam(self._user)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def __enter__(self) -> "PostgresServer":
        self._run("initdb", "--auth=trust", "--username=owner", "--no-sync", "-D", self._data)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def start(self) -> None:
        options = f"-h 127.0.0.1 -p {self.port} -k {self.folder}"
        self._run("pg_ctl", "-D", self._data, "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "stop", check=False)

    def database(self, name: str) -> PostgresPlace:
        """Creates an empty database."""
        self.sql(f"CREATE DATABASE {name}")
        return self.place(name)

    def place(self, name: str, user: str = "owner", options: str = "sslmode=disable") -> PostgresPlace:
        return PostgresPlace(url=f"postgresql://{user}@127.0.0.1:{self.port}/{name}?{options}")

    def sql(self, command: str, database: str = "postgres") -> str:
        arguments = ("-h", "127.0.0.1", "-p", str(self.port), "-U", "owner", "-d", database, "-At", "-c", command)
        return self._run("psql", *arguments)

    def script(self, commands: str) -> None:
        """Runs what a person types into psql, meta-commands such as `\\connect` included."""
        file = self.folder / "script.sql"
        file.write_text(commands)
        file.chmod(0o644)
        arguments = ("-h", "127.0.0.1", "-p", str(self.port), "-U", "owner", "-d", "postgres", "-f", str(file))
        self._run("psql", "-v", "ON_ERROR_STOP=1", *arguments)

    def _run(self, name: str, *arguments: str, check: bool = True) -> str:
        program = _program(name)
        assert program is not None
        done = subprocess.run(
            [program, *arguments],
            check=False,
            stdin=subprocess.DEVNULL,
            # The server would keep a pipe open.
            stdout=subprocess.DEVNULL if name == "pg_ctl" else subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            user=self._user,
            cwd=self.folder,
        )
        assert done.returncode == 0 or not check, f"{name}: {done.stdout}"
        return (done.stdout or "").strip()
