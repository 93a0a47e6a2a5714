"""Data Docs: the result of an audit as HTML pages by Great Expectations, without resources of other hosts.

All tables of a suite are shown on one page, like one table.
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
from streaming.data_quality.violations import EXAMPLES_MAX, Violations, row_text

_SITE = "kraftwatch"
_EXTERNAL = re.compile(
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


class DataDocs:
    """A folder of pages: add each result, then write."""

    def __init__(self, folder: Path, validator: Validator) -> None:
        """Writes nothing yet; the command has created the folder."""
        self._folder = folder
        self._context = validator.context
        self._results: dict[Suite, Any] = {}

    def add(self, suite: Suite, result: Any) -> None:
        """Adds the result of one table."""
        if suite in self._results:
            _join(self._results[suite], result)
        else:
            self._results[suite] = result

    def write(self, violations: Violations) -> Path:
        """Writes all pages and returns the first one.

        Args:
            violations: the result of all tables, for the first page.

        Raises:
            OSError: the pages cannot be written.
        """
        with tempfile.TemporaryDirectory(prefix="kraftwatch-audit-") as name:
            self._build(Path(name))
            # Great Expectations' own first page needs scripts of other hosts.
            (Path(name) / "index.html").write_text(_index(violations, Path(name)), encoding="utf-8")
            for page in Path(name).rglob("*.html"):
                page.write_text(self_contained(page.read_text(encoding="utf-8")), encoding="utf-8")
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


def _index(violations: Violations, folder: Path) -> str:
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters["row_text"] = row_text
    template = environment.from_string((files(__package__) / "index.html.j2").read_text(encoding="utf-8"))
    results = {page.stem: page.relative_to(folder).as_posix() for page in (folder / "validations").rglob("*.html")}
    suites = [
        {
            "name": suite.value,
            "rows": violations.rows[suite],
            "result": results.get(suite.value),
            "contracts": contracts,
        }
        for suite, contracts in CONTRACTS.items()
    ]
    return template.render(suites=suites, broken={one.contract.name: one for one in violations.broken})


def self_contained(page: str) -> str:
    """Returns the page without resources of other hosts; a small style sheet replaces them."""
    return _EXTERNAL.sub("", page).replace("</head>", _STYLE, 1)


def _join(kept: Any, more: Any) -> None:
    """Adds a table's result to the results of the former tables."""
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
