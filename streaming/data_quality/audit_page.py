"""The HTML page of an audit: every contract with its reason and the rows that violate it; it loads nothing."""

from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from streaming.data_quality.contract import CONTRACTS, Validator, row_text


def html(validator: Validator) -> str:
    """Returns the page."""
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters["row_text"] = row_text
    template = environment.from_string((files(__package__) / "audit_page.html.j2").read_text(encoding="utf-8"))
    broken = {one.contract.name: one for one in validator.broken}
    return template.render(suites=CONTRACTS, rows=validator.rows, broken=broken)
