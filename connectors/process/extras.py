"""The extras of the package: libraries that the base package does not install (`optional-dependencies`)."""

import shlex
import sys
from enum import StrEnum
from importlib.metadata import version
from importlib.util import find_spec

from connectors.errors import UsageError


class Extra(StrEnum):
    """An extra, by the name that pip takes."""

    JOB = "job"
    AUDIT = "audit"
    POSTGRES = "postgres"
    APPRISE = "apprise"
    OTLP = "otlp"


_LIBRARIES = {
    Extra.JOB: ("Spark", ("pyspark", "pandas", "pyarrow", "numpy")),
    Extra.AUDIT: ("Great Expectations", ("great_expectations", "pandas")),
    Extra.POSTGRES: ("psycopg", ("psycopg",)),
    Extra.APPRISE: ("Apprise", ("apprise",)),
    Extra.OTLP: ("opentelemetry-proto", ("opentelemetry", "opentelemetry.proto")),
}
"""Of each extra: the library as a person knows it, and the modules that are imported, each after those around it."""


def is_absent(extra: Extra) -> bool:
    """Returns whether an extra is not installed at all; `require` also finds one of which a part is missing."""
    _, (first, *_) = _LIBRARIES[extra]
    return find_spec(first) is None


def install_command(extra: Extra) -> str:
    """Returns the command that installs an extra.

    With this environment's pip and this version, which is there already: pip fetches only libraries, and no package
    that another person may have named kraftwatch.
    """
    return f"{shlex.quote(sys.executable)} -m pip install 'kraftwatch[{extra}]=={version('kraftwatch')}'"


def require(extra: Extra, user: str) -> None:
    """Checks that an extra is installed, without an import of it; `user`: what needs it, as the subject of a sentence.

    Raises:
        UsageError: it is not; the sentence has the command that installs it.
    """
    library, modules = _LIBRARIES[extra]
    if any(find_spec(module) is None for module in modules):
        raise UsageError(f"{user} needs {library}, which the base package does not install: {install_command(extra)}")
