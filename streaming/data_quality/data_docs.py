"""Data Docs: what an audit found as pages to look at, written by Great Expectations; they load nothing from elsewhere.

The tables of one suite come to one page, as if they had been one table.
"""

import re
import shutil
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from streaming.data_quality.contract import Suite
from streaming.data_quality.expectations import CONTRACTS, Validator
from streaming.data_quality.great_expectations_import import (
    ExpectationSuiteIdentifier,
    RunIdentifier,
    ValidationResultIdentifier,
)
from streaming.data_quality.violations import EXAMPLES_MAX, Tally, words

_SITE = "kraftwatch"
_ELSEWHERE = re.compile(
    r"<script[^>]*\bsrc=[\"']https?://[^>]*>\s*</script>|<(?:link|img)[^>]*\b(?:href|src)=[\"']https?://[^>]*>"
    r"|url\(['\"]?https?://[^)]*\)",
    re.IGNORECASE,
)
_STYLE = """<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 80rem; padding: 1rem; color: #222; }
table { border-collapse: collapse; width: 100%; } td, th { border: 1px solid #ccc; padding: .3rem .6rem;
  text-align: left; vertical-align: top; } .row { margin: 1rem 0; } .alert { background: #f2f2f2; padding: .6rem; }
.text-danger::before { content: "✗ "; color: #b00020; font-style: normal; }
.text-success::before { content: "✓ "; color: #1b6e32; font-style: normal; }
.text-warning::before { content: "! "; color: #8a5a00; font-style: normal; }
.collapse:not(.tab-pane), .modal, .ge-walkthrough-modal, footer, .btn-group-toggle, #ge-cta-footer, .card
  { display: none; } .ge-section { padding: 0; }
@media (prefers-color-scheme: dark) { body { background: #16181c; color: #ddd; } .alert { background: #26292f; }
  a { color: #8ab4f8; } td, th { border-color: #444; } }
</style></head>"""


class Docs:
    """A folder of pages. Keep each result, then write."""

    def __init__(self, folder: Path, validator: Validator) -> None:
        """Nothing is written yet; `site.make_ours` has made the folder."""
        self._folder = folder
        self._context = validator.context
        self._results: dict[Suite, Any] = {}

    def keep(self, suite: Suite, result: Any) -> None:
        """One table's result."""
        if suite in self._results:
            _join(self._results[suite], result)
        else:
            self._results[suite] = result

    def write(self, tally: Tally) -> Path:
        """Write the pages whole, and say where to begin to read.

        Args:
            tally: what all tables came to, for the first page.

        Raises:
            OSError: they cannot be written.
        """
        with tempfile.TemporaryDirectory(prefix="kraftwatch-audit-") as name:
            self._build(Path(name))
            # Great Expectations' own first page is drawn by scripts from elsewhere.
            (Path(name) / "index.html").write_text(_index(tally, Path(name)), encoding="utf-8")
            for page in Path(name).rglob("*.html"):
                page.write_text(alone(page.read_text(encoding="utf-8")), encoding="utf-8")
            for before in ("expectations", "validations"):
                shutil.rmtree(self._folder / before, ignore_errors=True)
            shutil.copytree(name, self._folder, dirs_exist_ok=True)
        return self._folder / "index.html"

    def _build(self, folder: Path) -> None:
        context = self._context
        for site in list(context.get_site_names()):
            context.delete_data_docs_site(site)
        context.add_data_docs_site(
            _SITE,
            {
                "class_name": "SiteBuilder",
                "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
                "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder)},
            },
        )
        run = RunIdentifier(run_name="audit")
        for suite, result in self._results.items():
            result.meta["run_id"] = run
            identifier = ValidationResultIdentifier(
                expectation_suite_identifier=ExpectationSuiteIdentifier(name=suite.value),
                run_id=run,
                batch_identifier=suite.value,
            )
            context.validation_results_store.set(identifier, result)
        context.build_data_docs(site_names=[_SITE])


def _index(tally: Tally, folder: Path) -> str:
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters["words"] = words
    template = environment.from_string((files(__package__) / "index.html.j2").read_text(encoding="utf-8"))
    results = {page.stem: page.relative_to(folder).as_posix() for page in (folder / "validations").rglob("*.html")}
    suites = [
        {
            "name": suite.value,
            "rows": tally.rows[suite],
            "result": results.get(suite.value),
            "contracts": contracts,
        }
        for suite, contracts in CONTRACTS.items()
    ]
    return template.render(suites=suites, broken={one.contract.name: one for one in tally.broken})


def alone(page: str) -> str:
    """A page that loads nothing from elsewhere: what it loaded goes, and a small style comes in its place."""
    return _ELSEWHERE.sub("", page).replace("</head>", _STYLE, 1)


def _join(kept: Any, more: Any) -> None:
    """Add a table's result to those of the tables before it."""
    by_name = {one.expectation_config.meta["contract"]: one for one in more.results}
    for one in kept.results:
        _add(one.result, by_name[one.expectation_config.meta["contract"]].result)
        one.success = one.result["unexpected_count"] == 0
    kept.success = all(one.success for one in kept.results)
    good = sum(one.success for one in kept.results)
    kept.statistics.update(
        successful_expectations=good,
        unsuccessful_expectations=len(kept.results) - good,
        success_percent=100 * good / len(kept.results),
    )


def _add(kept: dict[str, Any], more: dict[str, Any]) -> None:
    for count in ("element_count", "unexpected_count", "missing_count"):
        if count in kept:
            kept[count] += more.get(count, 0)
    for examples in ("partial_unexpected_list", "partial_unexpected_index_list", "partial_unexpected_counts"):
        if examples in kept:
            kept[examples] = [*kept[examples], *more.get(examples, ())][:EXAMPLES_MAX]
    elements, missing = kept["element_count"], kept.get("missing_count", 0)
    for percent, of in (("", elements - missing), ("_nonmissing", elements - missing), ("_total", elements)):
        if f"unexpected_percent{percent}" in kept:
            kept[f"unexpected_percent{percent}"] = 100 * kept["unexpected_count"] / of if of else 0.0
    if "missing_percent" in kept and elements:
        kept["missing_percent"] = 100 * missing / elements
