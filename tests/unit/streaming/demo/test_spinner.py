"""Waiting is printed also where no spinner can be drawn."""

from io import StringIO

from rich.console import Console

from streaming.demo.spinner import waiting


def test_a_pipe_gets_a_line_for_each_wait() -> None:
    pipe = StringIO()

    with waiting(Console(file=pipe), "starting [five] Kafka nodes"):
        assert pipe.getvalue() == "  starting [five] Kafka nodes ...\n"


def test_a_dumb_terminal_gets_a_line_for_each_wait() -> None:
    screen = StringIO()

    with waiting(Console(file=screen, force_terminal=True, _environ={"TERM": "dumb"}), "starting five Kafka nodes"):
        assert "starting five Kafka nodes ..." in screen.getvalue()
