"""A pytest plugin that makes Triton's interpreter a third faster and keeps its memory bounded.

The interpreter patches Triton's language, replacing its operations by its own, at every call of a function within a
kernel. Here that is done once for each launch. If the internals of Triton are not as expected, nothing is changed.
"""

from typing import Any

import triton.language as tl
from triton.runtime import interpreter

_patch_language: Any = getattr(interpreter, "_patch_lang", None)
_patched: set[str] = set()
_needed: dict[Any, frozenset[str]] = {}


class _Launch:
    """The scope of the first patch of a launch: restores the language at the end of it."""

    def __init__(self, scope: Any) -> None:
        self.scope = scope

    def restore(self) -> None:
        _patched.clear()
        self.scope.restore()


class _NothingToRestore:
    def restore(self) -> None:
        pass


def _patch_once(function: Any) -> Any:
    if function not in _needed:
        modules = function.__globals__.values()
        names = {"language": any(m is tl for m in modules), "core": any(m is tl.core for m in modules)}
        _needed[function] = frozenset(name for name, there in names.items() if there)
    needed, launch = _needed[function], not _patched
    if not launch and needed <= _patched:
        return _NothingToRestore()
    _patched.update(needed)
    scope = _patch_language(function)
    return _Launch(scope) if launch else scope


if _patch_language is not None and hasattr(interpreter, "_LangPatchScope"):
    interpreter._patch_lang = _patch_once  # pyright: ignore[reportPrivateImportUsage, reportAttributeAccessIssue]
