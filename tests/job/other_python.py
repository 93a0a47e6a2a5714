"""A Python without kraftwatch."""

import subprocess
from pathlib import Path

from tests.wheel import environment_with_libraries


def python_without_kraftwatch(folder: Path) -> Path:
    """Returns a Python that has every dependency and not kraftwatch."""
    python = environment_with_libraries(folder / "python") / "python"
    result = subprocess.run(
        [python, "-c", "import pyspark, rules"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert "No module named 'rules'" in result.stderr
    return python
