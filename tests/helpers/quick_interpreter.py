"""A plugin for tests in Triton's interpreter, which makes it a third faster and keeps its memory bounded.

At every call of a function within a kernel the interpreter puts its own operations in place of the language's, which it
searches for them; those of the last call it keeps. Once a launch is enough. Where Triton's inside looks different from
what this expects, nothing is changed.
"""

from __future__ import annotations

from typing import Any

import triton.language as tl
from triton.runtime import interpreter

_put_in_place: Any = getattr(interpreter, "_patch_lang", None)
_in_place: set[str] = set()
_needed: dict[Any, frozenset[str]] = {}


class _Launch:
    """What restores the language at the end of a launch."""

    def __init__(self, scope: Any) -> None:
        self.scope = scope

    def restore(self) -> None:
        _in_place.clear()
        self.scope.restore()


class _Nothing:
    def restore(self) -> None:
        pass


def _once(function: Any) -> Any:
    if function not in _needed:
        modules = function.__globals__.values()
        names = {"language": any(m is tl for m in modules), "core": any(m is tl.core for m in modules)}
        _needed[function] = frozenset(name for name, there in names.items() if there)
    needed, launch = _needed[function], not _in_place
    if not launch and needed <= _in_place:
        return _Nothing()
    _in_place.update(needed)
    scope = _put_in_place(function)
    return _Launch(scope) if launch else scope


if _put_in_place is not None and hasattr(interpreter, "_LangPatchScope"):
    interpreter._patch_lang = _once  # pyright: ignore[reportPrivateImportUsage, reportAttributeAccessIssue]
