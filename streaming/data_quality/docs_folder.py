"""The folder for Data Docs: it must contain nothing else."""

from pathlib import Path

from connectors.errors import UsageError

MARKER = ".kraftwatch-audit"
"""Name of the file that marks a folder as written by an audit."""


def create_docs_folder(folder: Path) -> None:
    """Creates and marks the folder.

    Raises:
        UsageError: the folder contains other files, is not a folder, or cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--docs {folder} is not a folder: name a new or empty one, or one of a previous audit")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).exists():
        raise UsageError(f"--docs {folder} contains other files: name a new or empty folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARKER).touch()
    except OSError as problem:
        reason = (problem.strerror or "unusable").lower()
        raise UsageError(f"--docs {folder}: {reason}; name a writable folder") from None
