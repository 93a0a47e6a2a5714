"""Starts Spark's planner: connects to Java first, and imports pyspark only then.

Java waits 10 s for the connection of the process that plans a Python data source, and ends the query without it; the
limit is fixed (PythonWorkerFactory.createSimpleWorker). pyspark connects after its imports, which take 0.7 s of CPU
time: more than 10 s where ten busy processes share a core. Connecting first takes 0.02 s of CPU time. Java has no limit
for what follows, except for the secret of a TCP connection (AUTH_TIMEOUT).
"""

import importlib
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Final

MODULE: Final = "pyspark.sql.streaming.python_streaming_source_runner"
"""What Java starts with `python -m`."""
AUTH_TIMEOUT: Final = {"spark.python.authenticate.socketTimeout": "10min"}
"""How long Java and Python wait for the other one's secret, and for each other where rows are collected (15 s)."""
_SCRIPT = """\
#!/bin/sh
if [ "$2" = {module} ]; then exec {python} -m {launcher} "$2"; fi
exec {python} "$@"
"""


def write_python(folder: Path, python: str) -> Path:
    """Writes the script that Spark starts instead of `python`, and returns its path: it starts the planner with `main`.

    `folder` exists, is the user's own, and files in it may be executed.
    """
    script = folder / "python"
    quoted = "'" + python.replace("'", "'\\''") + "'"
    script.write_text(_SCRIPT.format(module=MODULE, python=quoted, launcher=__name__), encoding="utf-8")
    script.chmod(0o700)
    return script


def main() -> None:
    """Connects, then runs the planner of pyspark on the connection."""
    connection = _connected()
    secret = os.environ.get("PYTHON_WORKER_FACTORY_SECRET")
    runner, util = importlib.import_module(MODULE), importlib.import_module("pyspark.util")
    with connection, connection.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", "65536"))) as stream:
        if secret is not None:
            util._do_server_auth(stream, secret)
        stream.write(struct.pack("!i", os.getpid()))
        stream.flush()
        runner.main(stream, stream)


def _connected() -> socket.socket:
    path = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH")
    if path is None:
        return socket.create_connection(("127.0.0.1", int(os.environ["PYTHON_WORKER_FACTORY_PORT"])))
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    return connection


if __name__ == "__main__":
    # Before any import of pyspark: only the standard library is imported so far.
    assert "pyspark" not in sys.modules
    main()
