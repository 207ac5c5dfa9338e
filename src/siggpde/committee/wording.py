"""Recipes of members in words, for people."""

from __future__ import annotations

from collections.abc import Mapping

from siggpde.committee.recipes import Recipe

_WORDS = {
    "linear": "words with one letter other than time",
    "path": "signatures of whole paths",
    "kernel": "signature kernel by its PDE",
    "lifted": "signature kernel of lifted paths",
    "windows": "signatures of windows",
    "spectrum": "windows of the spectrum",
}
_WHERE = {"1": "over the whole series", "3": "over its thirds"}


def in_words(recipe: Recipe, kinds: Mapping[str, str]) -> str:
    """What the kernel of a member is made of, largest share first; `kinds` of views by the names of the kernels.

    Examples:
        >>> recipe = Recipe("LX", (("L", 1.0), ("x1", 1.5), ("dx1", 1.5)))
        >>> in_words(recipe, {"L": "linear", "x1": "windows", "dx1": "windows"})
        'signatures of windows (x, dx; over the whole series) 75 %, words with one letter other than time 25 %'
    """
    shares: dict[str, float] = {}
    names: dict[str, list[str]] = {}
    total = sum(weight for _, weight in recipe.weights)
    for name, weight in recipe.weights:
        kind = name if kinds.get(name, "features") == "features" else kinds[name]
        shares[kind] = shares.get(kind, 0.0) + weight / total
        names.setdefault(kind, []).append(name)
    ordered = sorted(shares, key=lambda kind: -shares[kind])
    whole = len(ordered) == 1
    listed = [
        _named(kind, names[kind]) + ("" if whole else f" {shares[kind]:.0%}".replace("%", " %")) for kind in ordered
    ]
    text = ", ".join(listed)
    return text if recipe.power == 1 else f"{text}; to the power {recipe.power}"


def _named(kind: str, kernels: list[str]) -> str:
    if kind not in _WORDS:
        return f"features of {kind!r}"
    if kind not in ("windows", "spectrum"):
        return _WORDS[kind]
    lifts = list(dict.fromkeys(name[:-1] for name in kernels)) if kind == "windows" else []
    ends = {name[-1] for name in kernels}
    where = _WHERE.get(next(iter(ends)), "") if len(ends) == 1 else ""
    notes = "; ".join(filter(None, [", ".join(lifts), where]))
    return f"{_WORDS[kind]} ({notes})" if notes else _WORDS[kind]
