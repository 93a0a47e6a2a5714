"""A verb's help: an option that takes no value shows no type, where typer would show `<bool>`."""

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption


class Verb(TyperCommand):
    """A verb that does something."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options and arguments."""
        return _bare(super().get_params(ctx))


class Verbs(TyperGroup):
    """A verb that has verbs of its own."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options."""
        return _bare(super().get_params(ctx))


def dress(app: typer.Typer) -> None:
    """Make every verb of an app, and of those in it, one of these two."""
    app.info.cls = Verbs
    for verb in app.registered_commands:
        verb.cls = Verb
    for group in app.registered_groups:
        if group.typer_instance is not None:
            dress(group.typer_instance)


def _bare(params: list[Any]) -> list[Any]:
    for each in params:
        if isinstance(each, TyperOption) and each.is_flag:
            each.metavar = ""
    return params
