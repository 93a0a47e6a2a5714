"""The functions of an imported module, and how their code is replaced."""

import functools
import gc
import types

PACKAGES = ("rules", "streaming", "connectors")


def dotted_name(module: str) -> str:
    """Returns the name by which a module is imported: `rules.lifecycle` for `rules/lifecycle.py`."""
    return module.removesuffix(".py").replace("/", ".")


def functions(module: types.ModuleType) -> dict[str, types.FunctionType]:
    """Returns the functions and methods that a module defines, by qualified name, without their decorators."""
    found: dict[str, types.FunctionType] = {}
    for name, value in vars(module).items():
        members = {f"{name}.{each}": one for each, one in vars(value).items()} if isinstance(value, type) else {}
        of_module = getattr(value, "__module__", None) == module.__name__
        for qualified, member in (members if of_module else {}).items():
            found |= _function(qualified, member, module.__name__)
        found |= _function(name, value, module.__name__)
    return found


def _function(name: str, value: object, module: str) -> dict[str, types.FunctionType]:
    match value:
        case property():
            value = value.fget
        case functools.cached_property():
            value = value.func
        case staticmethod() | classmethod():
            value = value.__func__
        case _:
            pass
    value = getattr(value, "__wrapped__", value)
    return {name: value} if isinstance(value, types.FunctionType) and value.__module__ == module else {}


def replace(target: types.ModuleType, code: str, function: str) -> bool:
    """Replaces the code of the functions of this name in an imported module by that of changed source code.

    Returns:
        False if no function could be replaced: the name is nowhere, or a closure has other variables.
    """
    changed = types.ModuleType(target.__name__)
    changed.__file__ = target.__file__
    exec(compile(code, str(target.__file__), "exec"), changed.__dict__)
    now = functions(target)
    replaced = False
    for name, new in functions(changed).items():
        old = now.get(name)
        if name.split(".")[-1] != function or old is None or old.__code__.co_freevars != new.__code__.co_freevars:
            continue
        old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
        replaced = True
    return replaced


def clear_caches() -> None:
    """Clears the caches of the functions of the product, so that no result of another code is used."""
    for each in gc.get_objects():
        if isinstance(each, functools._lru_cache_wrapper) and each.__module__.partition(".")[0] in PACKAGES:
            each.cache_clear()
