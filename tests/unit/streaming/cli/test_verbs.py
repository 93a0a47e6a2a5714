"""The verbs are registered by name, and load only what they need."""

import subprocess
import sys

import pytest
import typer

from streaming import cli
from streaming.cli.verbs import Verb

ALL = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
DATA = ALL["data"].commands
VERBS: dict[str, Verb] = {name: one for name, one in (ALL | DATA).items() if isinstance(one, Verb)}
EVERY_VERB_BUT_SPARKS = ("great_expectations", "pandas", "pyarrow", "pyspark", "sqlalchemy")
NEITHER_QUERIES_NOR_SENDS = (*EVERY_VERB_BUT_SPARKS, "flask", "kafka", "requests", "streaming.config")
AT = """
import os, sys

def report():
    found = [name for name in {modules} if name in sys.modules]
    os.write(1, repr(found).encode())
    os._exit(0)

def hook(event, arguments):
    if event == "socket.connect":
        report()

sys.addaudithook(hook)
sys.argv = ["kraftwatch", *{words}]
sys.stdout = sys.stderr
from streaming.cli import main
try:
    main()
finally:
    report()
"""
"""Runs a verb in this process until it first connects, or to its end, and prints which modules are loaded then."""


@pytest.mark.parametrize("name", VERBS)
def test_the_list_of_verbs_has_the_first_sentence_of_each_help_text(name: str) -> None:
    verb = VERBS[name]

    assert verb.help == " ".join((verb.load().help or "").split("\n\n")[0].split())


def loaded(words: list[str], modules: tuple[str, ...]) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", AT.format(modules=modules, words=words)], capture_output=True, text=True, check=True
    )
    return ended.stdout


@pytest.mark.parametrize(
    ("words", "modules"),
    [
        (["--help"], (*NEITHER_QUERIES_NOR_SENDS, "pydantic", "rules.evaluate")),
        (["explain", "no-leader"], NEITHER_QUERIES_NOR_SENDS),
        (["status", "--log-dir", "/nowhere"], NEITHER_QUERIES_NOR_SENDS),
        (["status", "--cluster", "a=127.0.0.1:1"], (*EVERY_VERB_BUT_SPARKS, "connectors.sinks", "requests")),
        (["check", "--cluster", "a=127.0.0.1:1"], (*EVERY_VERB_BUT_SPARKS, "rules.evaluate", "streaming.replay")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_verb_imports_nothing_that_it_does_not_need_until_its_first_request(
    words: list[str], modules: tuple[str, ...]
) -> None:
    assert loaded(words, modules) == "[]"
