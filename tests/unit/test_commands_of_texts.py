"""The listing of all commands of the texts of tests."""

from tests.commands import listing


def test_commands_of_every_form_of_text_are_listed() -> None:
    """That each help begins with its command's name is checked where the command is registered."""
    listed = "\n".join(listing())
    for line in (
        "probe 1,2 refused",
        "sink slack",
        "producer-ids 101",
        "kill 1 2",
        "then 30s",
        "reread 101",
        "held job",
    ):
        assert f"\n  {line}" in listed
