"""What is waited for is said also where no spinner can turn."""

from io import StringIO

from rich.console import Console

from streaming.demo.spinner import waiting


def test_a_pipe_is_told_what_is_waited_for() -> None:
    pipe = StringIO()

    with waiting(Console(file=pipe), "starting [five] Kafka nodes"):
        assert pipe.getvalue() == "  starting [five] Kafka nodes ...\n"


def test_a_terminal_that_cannot_move_its_cursor_is_told_too() -> None:
    screen = StringIO()

    with waiting(Console(file=screen, force_terminal=True, _environ={"TERM": "dumb"}), "starting five Kafka nodes"):
        assert "starting five Kafka nodes ..." in screen.getvalue()
