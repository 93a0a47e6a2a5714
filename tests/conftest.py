"""Settings of all tests: Hypothesis has no deadline, because tests run in parallel; Debian packages may be missing.

Hypothesis uses the same examples in every run, so that failures are reproducible. With KRAFTWATCH_EXHAUSTIVE=1 it uses
new examples in each run, from `--hypothesis-seed=N` if given.
"""

import gc
import os
import shutil
import sys

import pytest
from hypothesis import HealthCheck, settings

# Great Expectations imports Spark Connect, which ends a program whose main module has no file, as a worker of xdist.
vars(sys.modules["__main__"]).setdefault("__file__", __file__)

# A worker of xdist keeps all tests: by Python's own threshold a third of the collection is a search for cycles in them.
gc.set_threshold(100_000, 50, 100)

EXHAUSTIVE = bool(os.environ.get("KRAFTWATCH_EXHAUSTIVE"))


def examples(most: int, part: int = 4) -> int:
    """Returns how many examples a slow property test has: this part of `most` in `make test`, a quarter or less."""
    return most if EXHAUSTIVE else most // part


settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=not EXHAUSTIVE, database=None
)
settings.load_profile("untimed")

PROGRAMS = {
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    "chromium": "chromium",
    "chromium-driver": "chromedriver",
    "prometheus": "promtool",
    "prometheus-alertmanager": "prometheus-alertmanager",
    "krb5-kdc": "krb5kdc",
    "krb5-admin-server": "kadmin.local",
    "postgresql": "pg_createcluster",
    "nftables": "nft",
    "iproute2": "ip",
    "openssl": "openssl",
}
"""The Debian packages of the marker `debian`, and one program of each, which is searched on the PATH."""
SKIP_REASON = "missing: apt-get install --no-install-recommends "
"""Before the names of Debian packages; `-ra` lists the reasons at the end."""


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        packages = [package for mark in item.iter_markers("debian") for package in mark.args]
        missing = [package for package in packages if shutil.which(PROGRAMS[package]) is None]
        if missing:
            item.add_marker(pytest.mark.skip(reason=SKIP_REASON + " ".join(missing)))
