"""docs/configuration.md lists every key with its default: its tables are generated from the models."""

from tests.configuration_page import PAGE, page


def test_configuration_page_is_current() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "make goldens"
