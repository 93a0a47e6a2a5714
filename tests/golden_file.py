"""Golden files: the text that a test expects, which `make goldens` rewrites. Read and understand each difference."""

import os
from pathlib import Path

REWRITE = os.environ.get("KRAFTWATCH_REWRITE_GOLDENS") == "1"


def assert_golden(path: Path, text: str) -> None:
    """Asserts that the file has this text, without spaces at the ends of lines; writes it before for `make goldens`."""
    text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    if REWRITE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, f"{path.name}: `make goldens` rewrites it; read the difference"
