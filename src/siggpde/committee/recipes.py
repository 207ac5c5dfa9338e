"""Recipes of members: which kernels are averaged, with what weights, and to what power; and the same in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from siggpde.views.base import Rows

CONSTANT = 10.0
"""The weight of the constant kernel beside every member: targets are not centred."""

_SMALLEST = 1e-9


@dataclass(frozen=True)
class Recipe:
    """The kernel of a member: the mean of the kernels with these `weights`, to a `power` p above 1 ((1 + cosine) / 2)^p
    of it; `family` names the kinds of its views."""

    name: str
    weights: tuple[tuple[str, float], ...]
    power: int = 1
    family: str = ""

    def mix(self, rows: Mapping[str, Rows], norms: Tensor | None = None, count: int | None = None) -> Rows:
        """Returns the rows of the member's kernel, the constant included; a power needs the `norms` (m,) of the
        landmarks, but for the rows of the landmarks themselves; `count` is as for `average`."""
        return self.raised(self.average(rows, count), norms)

    def raised(self, plain: Rows, norms: Tensor | None = None) -> Rows:
        """Returns the rows of the member's kernel from those before the power, which are overwritten."""
        if self.power == 1:
            return Rows(plain.gram.add_(CONSTANT), plain.variance + CONSTANT)
        cosine = plain.gram.div_(sizes(plain, plain.variance if norms is None else norms))
        return Rows(cosine.add_(1).div_(2).pow_(self.power).add_(CONSTANT), torch.ones_like(plain.variance) + CONSTANT)

    def average(self, rows: Mapping[str, Rows], count: int | None = None) -> Rows:
        """Returns the weighted mean of the kernels, before any power, against `count` series, None for all."""
        total = sum(dict(self.weights).values())
        gram: Any = 0.0
        variance: Any = 0.0
        for name, weight in self.weights:
            gram += rows[name].gram[:, :count] * (weight / total)  # in place from the second kernel on
            variance += rows[name].variance * (weight / total)
        return Rows(gram, variance)

    def norms(self, landmarks: Mapping[str, Rows]) -> Tensor | None:
        """Returns the variances (m,) of the landmarks, which `mix` needs for new series; None without a power."""
        return None if self.power == 1 else self.average(landmarks).variance

    def state(self) -> dict[str, Any]:
        return {"name": self.name, "weights": [list(pair) for pair in self.weights], "power": self.power}

    @staticmethod
    def from_state(state: Mapping[str, Any]) -> Recipe:
        return Recipe(state["name"], tuple((name, float(weight)) for name, weight in state["weights"]), state["power"])


def sizes(plain: Rows, norms: Tensor) -> Tensor:
    """Returns |X| |Z| (n, m), by which cosines divide, for n series and landmarks with the variances `norms`."""
    return (plain.variance.sqrt()[:, None] * norms.sqrt()).clamp_min(_SMALLEST)


_SUMS: tuple[tuple[str, int], ...] = (
    # One letter a group: L linear, G paths, P kernels, R lifted kernels, X windows of x and dx, C of cum, Z of zn,
    # W of all lifts, 1 and 3 of W the statistics over the whole series and over its thirds, S of the spectrum.
    *((name, 1) for name in ("L", "G", "LG", "X", "XC", "XZ", "W", "GX", "GWW", "LGWWW", "1", "3")),
    *((name, 1) for name in ("S", "SX", "SWW", "SGWW", "SLGWWW")),
    *((name, 1) for name in ("P", "R", "LP", "LR", "PR", "PW", "RW", "PGW", "RGW", "PRGW", "PRGWS")),
    *((name, 2) for name in ("X", "W", "GWW", "LG", "S", "SWW")),
)


def recipes(kinds: Mapping[str, Sequence[str]]) -> list[Recipe]:
    """Returns the recipes for blocks of these `kinds`, each with the names of its kernels; those whose group is missing
    are left out, and a view of facts or of the user's own is a member of its own and a summand of larger ones."""
    groups = {_LETTERS[kind]: list(names) for kind, names in kinds.items() if kind in _LETTERS and names}
    for name in kinds.get("windows", ()):
        for letter in (_LETTERS_OF_LIFTS[name[:-1]], name[-1]):
            groups.setdefault(letter, []).append(name)
    recipes: dict[Any, Recipe] = {}
    for letters, power in _SUMS:
        _add(recipes, letters, groups, letters, power)
    for kind, names in kinds.items():
        if kind in _LETTERS:
            continue
        _add(recipes, kind, groups, "", 1, [list(names)])
        for letters in ("W", "GWW", "LGWWW", "SWW", "PRGW", "LG"):
            _add(recipes, f"{letters}+{kind}", groups, letters, 1, [list(names)] * max(1, len(letters) // 2))
        # What a series means may depend on its facts; alone they may be unknown, and then have no cosines.
        for letters in ("W", "GWW") if kind == "facts" else ("",):
            _add(recipes, f"{letters}+{kind}".removeprefix("+"), groups, letters, 2, [list(names)])
    return list(recipes.values())


_FAMILIES = str.maketrans("LGPRXCZW13", "GGPPWWWWWW")
_LETTERS_OF_LIFTS = {"x": "X", "dx": "X", "cum": "C", "zn": "Z"}
_LETTERS = {"linear": "L", "path": "G", "kernel": "P", "lifted": "R", "windows": "W", "spectrum": "S"}


def _add(
    recipes: dict[Any, Recipe],
    label: str,
    groups: Mapping[str, list[str]],
    letters: str,
    power: int,
    more: Sequence[list[str]] = (),
) -> None:
    """Adds the sum of the groups `letters` and `more`, unless a group is missing or the same sum is there already."""
    if not groups.keys() >= set(letters):
        return
    weights: dict[str, float] = {}
    for names in (*map(groups.__getitem__, letters), *more):
        for name in names:
            weights[name] = weights.get(name, 0.0) + 1 / len(names)
    label = label if more else "".join(dict.fromkeys(letters))
    key = (tuple(sorted(weights.items())), power)
    family = "".join(sorted(set(letters.translate(_FAMILIES)))) + "+" * bool(more)
    recipes.setdefault(key, Recipe(label + ("²" if power == 2 else ""), tuple(weights.items()), power, family))


def kernels_of(chosen: Iterable[Recipe]) -> set[str]:
    """Returns the names of all kernels that these recipes need."""
    return {name for recipe in chosen for name, _ in recipe.weights}


_WORDS = {
    "linear": "words with one letter other than time",
    "path": "signatures of whole paths",
    "kernel": "signature kernel by its PDE",
    "lifted": "signature kernel of lifted paths",
    "windows": "signatures of windows",
    "spectrum": "windows of the spectrum",
    "facts": "facts beside the series",
}
_LIFTS = {"x": "values", "dx": "steps", "cum": "running sums", "zn": "standardised values"}
_WHERE = {"1": "over the whole series", "3": "over its thirds"}


def in_words(recipe: Recipe, kinds: Mapping[str, str]) -> str:
    """Returns what the kernel of a member is made of, largest share first; `kinds` are those of views by kernel.

    >>> recipe = Recipe("LX", (("L", 1.0), ("x1", 1.5), ("dx1", 1.5)))
    >>> in_words(recipe, {"L": "linear", "x1": "windows", "dx1": "windows"})
    'signatures of windows (of values, steps; over the whole series) 75 %, words with one letter other than time 25 %'
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
    of = f"of {', '.join(_LIFTS[lift] for lift in lifts)}" if lifts else ""
    notes = "; ".join(filter(None, [of, where]))
    return f"{_WORDS[kind]} ({notes})" if notes else _WORDS[kind]
