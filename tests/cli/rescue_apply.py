"""`rescue apply` on a copy of a log directory."""

from pathlib import Path

from typer.testing import Result

from tests.cli.program import kraftwatch, usage_error

SNAPSHOT = "00000000000000000061-0000000001.checkpoint"


def rescue(verb: str, folder: Path, *more: str) -> Result:
    return kraftwatch("rescue", verb, "--log-dir", folder, *more)


def refusal(verb: str, folder: Path, *more: str) -> str:
    return usage_error("rescue", verb, "--log-dir", folder, *more)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder; Kafka's lock file does not count."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }
