"""The extras of the package: libraries that the base package does not install (`optional-dependencies`)."""

from enum import StrEnum
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


def require(extra: Extra, user: str) -> None:
    """Checks that an extra is installed, without an import of it; `user`: what needs it, as the subject of a sentence.

    Raises:
        UsageError: it is not; the sentence has the command that installs it.
    """
    library, modules = _LIBRARIES[extra]
    if any(find_spec(module) is None for module in modules):
        raise UsageError(
            f"{user} needs {library}, which the base package does not install: pip install 'kraftwatch[{extra}]'"
        )
