"""docs/configuration.md lists every key with its default: its tables are the models'."""

from tests.configuration_page import PAGE, page


def test_its_tables_are_current() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "make goldens"
