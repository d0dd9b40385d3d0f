"""Types are made ready for JSON when they are first used: most programs that import standfast use few of them."""

from __future__ import annotations

from typing import Any, cast

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypeAliasType


def adapter(kind: Any) -> TypeAdapter[Any]:
    """A TypeAdapter that is built by its first use; building all of them took a third of `import standfast`."""
    # pydantic takes no settings for a dataclass, but for a name that stands for one.
    named = cast("Any", TypeAliasType)("named", kind)
    return TypeAdapter(named, config=ConfigDict(defer_build=True))
