"""The listing of all commands of the texts of tests."""

from tests.commands import listing
from tests.scripts import script_quorum, script_run


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


def test_no_command_of_a_script_has_two_meanings() -> None:
    assert script_quorum.quorum_command.help.keys() & script_run.command.help.keys() == set()
