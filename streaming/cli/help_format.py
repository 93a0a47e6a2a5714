"""The format of a verb's help: an option without a value shows no type, where typer would show `<bool>`."""

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption


class CliCommand(TyperCommand):
    """A verb."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Returns its options and arguments."""
        return _without_flag_types(super().get_params(ctx))


class CliGroup(TyperGroup):
    """A verb that has verbs, such as `kraftwatch silence`."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Returns its options."""
        return _without_flag_types(super().get_params(ctx))


def apply_help_format(app: typer.Typer) -> None:
    """Sets the classes of every verb of an app, and of the apps in it."""
    app.info.cls = CliGroup
    for verb in app.registered_commands:
        verb.cls = CliCommand
    for group in app.registered_groups:
        if group.typer_instance is not None:
            apply_help_format(group.typer_instance)


def _without_flag_types(params: list[Any]) -> list[Any]:
    for each in params:
        if isinstance(each, TyperOption) and each.is_flag:
            each.metavar = ""
    return params
