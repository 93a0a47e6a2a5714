"""The pydantic models of the configuration."""

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yields the models within a type such as `tuple[Model, ...]` or `Model | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)


def all_models(model: type[BaseModel], seen: set[type[BaseModel]] | None = None) -> Iterator[type[BaseModel]]:
    """Yields a model and every model within it, each once."""
    seen = set() if seen is None else seen
    if model not in seen:
        seen.add(model)
        yield model
        for field in model.model_fields.values():
            for inner in models_in(field.annotation):
                yield from all_models(inner, seen)
