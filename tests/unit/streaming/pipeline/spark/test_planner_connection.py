"""Spark's planner connects to Java before it imports pyspark; Java is a socket of the test."""

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from streaming.pipeline.spark.planner_connection import MODULE, write_python


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    """A path that a shell would split, of an interpreter whose pyspark cannot be imported until a file exists."""
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    python = folder / "python3"
    python.symlink_to(sys.executable)
    return python


def environment(tmp_path: Path, **variables: str) -> dict[str, str]:
    """Returns variables with which `import pyspark` waits for the file `imported`."""
    package = tmp_path / "shadow" / "pyspark"
    package.mkdir(parents=True)
    wait = f"while not os.path.exists({str(tmp_path / 'imported')!r}): time.sleep(0.01)"
    (package / "__init__.py").write_text(f"import os, time\n{wait}\n")
    paths = [str(package.parent), str(Path(__file__).parents[4])]
    return {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(paths)}


def test_planner_connects_before_it_imports_pyspark(tmp_path: Path, interpreter: Path) -> None:
    java = socket.socket(socket.AF_UNIX)
    java.bind(str(tmp_path / "java.sock"))
    java.listen()
    java.settimeout(120)
    script = write_python(tmp_path, str(interpreter))
    variables = environment(tmp_path, PYTHON_WORKER_FACTORY_SOCK_PATH=str(tmp_path / "java.sock"))

    with subprocess.Popen([script, "-m", MODULE], env=variables, stderr=subprocess.DEVNULL) as planner:
        connection, _ = java.accept()
        assert planner.poll() is None
        (tmp_path / "imported").touch()
        planner.wait(120)
    connection.close()
    java.close()


def test_every_other_module_is_started_as_it_is(tmp_path: Path, interpreter: Path) -> None:
    script = write_python(tmp_path, str(interpreter))
    program = "import sys; print(sys.argv[1:])"

    ran = subprocess.run([script, "-c", program, "a b", "'"], capture_output=True, text=True, check=True)

    assert ran.stdout == "['a b', \"'\"]\n"


def test_planner_sends_the_secret_of_a_tcp_connection_and_its_process_id(tmp_path: Path) -> None:
    """Every test on a real Spark connects by a Unix socket, without a secret."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON_WORKER_FACTORY")}
    java = socket.create_server(("127.0.0.1", 0))
    variables |= {
        "PYTHON_WORKER_FACTORY_PORT": str(java.getsockname()[1]),
        "PYTHON_WORKER_FACTORY_SECRET": "known",
    }
    java.listen()
    java.settimeout(120)
    script = write_python(tmp_path, sys.executable)

    with subprocess.Popen(
        [script, "-m", MODULE], env=variables, cwd=Path(__file__).parents[4], stderr=subprocess.DEVNULL
    ) as planner:
        connection, _ = java.accept()
        with connection, connection.makefile("rwb") as stream:
            assert stream.read(9) == struct.pack("!i", 5) + b"known"
            stream.write(struct.pack("!i", 2) + b"ok")
            stream.flush()
            (pid,) = struct.unpack("!i", stream.read(4))
        assert pid == planner.pid
        planner.wait(120)
    java.close()
