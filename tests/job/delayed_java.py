"""A Java that starts only once a file exists: what happens before Spark is up can be waited for."""

import os
import shutil
from pathlib import Path


def java_that_waits_for(file: Path) -> Path:
    """Returns a JAVA_HOME whose Java starts once the file exists."""
    real = os.environ["JAVA_HOME"] + "/bin/java" if "JAVA_HOME" in os.environ else shutil.which("java")
    java = file.parent / "java-home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\nwhile [ ! -e {file} ]; do sleep 0.1; done\nexec {real} "$@"\n')
    java.chmod(0o755)
    return java.parent.parent
