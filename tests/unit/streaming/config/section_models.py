"""The pydantic models of the configuration, and the types of their keys."""

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel


def types_in(annotation: Any) -> Iterator[type]:
    """Yields the classes within a type such as `tuple[Model, ...]`, `Model | None` or `Annotated[Path, ...]`."""
    if isinstance(annotation, type):
        yield annotation
    for inner in get_args(annotation):
        yield from types_in(inner)


def all_models(model: type[BaseModel], seen: set[type[BaseModel]] | None = None) -> Iterator[type[BaseModel]]:
    """Yields a model and every model within it, each once."""
    seen = set() if seen is None else seen
    if model not in seen:
        seen.add(model)
        yield model
        for field in model.model_fields.values():
            for inner in types_in(field.annotation):
                if issubclass(inner, BaseModel):
                    yield from all_models(inner, seen)
