"""What most programs that import standfast do not use is loaded, or made ready for JSON, when it is first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def attributes(
    package: dict[str, Any], names: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, given its globals and its modules, each with the names it has.

    A module is loaded when it, or one of its names, is first used. A name must not be that of a module beside it:
    importing that module would put it in the place of the name.
    """
    own: str = package["__name__"]
    where = {name: module for module, of_module in names.items() for name in of_module.split()}

    def get(name: str) -> Any:
        if name in where:
            found = getattr(importlib.import_module(f"{own}.{where[name]}"), name)
        elif name in names:
            found = importlib.import_module(f"{own}.{name}")
        else:
            raise AttributeError(f"module {own!r} has no attribute {name!r}", name=name)
        package[name] = found
        return found

    def listed() -> list[str]:
        return sorted({*package, *where})

    return get, listed


def adapter(kind: Any) -> TypeAdapter[Any]:
    """A TypeAdapter that is built by its first use; building all of them took a third of `import standfast`."""
    # Here, because a process without values to store needs no pydantic, which takes longer than all its other work.
    from pydantic import ConfigDict, TypeAdapter  # noqa: PLC0415
    from typing_extensions import TypeAliasType  # noqa: PLC0415

    # pydantic takes no settings for a dataclass, but for a name that stands for one.
    named = cast("Any", TypeAliasType)("named", kind)
    return TypeAdapter(named, config=ConfigDict(defer_build=True))
