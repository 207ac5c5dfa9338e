"""Recipes of members: names, weights, powers."""

import pytest
import torch

from helpers.view_data import random_rows
from siggpde.committee.recipes import CONSTANT, Recipe, kernels_of, recipes
from siggpde.views.base import Rows

WINDOWS = [lift + end for lift in ("x", "dx", "cum", "zn") for end in "13"]
ALL = {
    "linear": ["L"],
    "path": ["base", "free"],
    "kernel": ["P", "P base"],
    "lifted": ["R0.5", "R1"],
    "windows": WINDOWS,
    "spectrum": ["spectrum1", "spectrum3"],
}


def by_name(kinds: dict[str, list[str]]) -> dict[str, Recipe]:
    actual = recipes(kinds)
    assert len({recipe.name for recipe in actual}) == len(actual)
    return {recipe.name: recipe for recipe in actual}


def test_all_recipes_and_those_of_some_kinds():
    actual = by_name(ALL)
    plain = "L G LG X XC XZ W GX GW LGW 1 3 S SX SW SGW SLGW P R LP LR PR PW RW PGW RGW PRGW PRGWS"
    assert [*actual] == [*plain.split(), "X²", "W²", "GW²", "LG²", "S²", "SW²"]
    assert all(recipe.power == (2 if name.endswith("²") else 1) for name, recipe in actual.items())
    assert kernels_of(actual.values()) == {name for names in ALL.values() for name in names}
    assert [*by_name({"linear": ["L"]})] == ["L"]
    assert [*by_name({"windows": ["x1", "x3"]})] == ["X", "1", "3", "X²"]  # W is X, and there is one sum only once
    assert recipes({}) == []
    without = by_name({kind: names for kind, names in ALL.items() if kind != "windows"})
    assert not any(set("WXCZ13") & set(name) for name in without)


@pytest.mark.parametrize(
    ("name", "shares"),
    [
        ("G", {"base": 0.5, "free": 0.5}),
        ("X", {"x1": 0.25, "x3": 0.25, "dx1": 0.25, "dx3": 0.25}),
        ("1", {name: 0.25 for name in WINDOWS if name.endswith("1")}),
        ("GW", {"base": 1 / 6, "free": 1 / 6, **dict.fromkeys(WINDOWS, 1 / 12)}),
        ("LG²", {"L": 0.5, "base": 0.25, "free": 0.25}),
        ("PR", {"P": 0.25, "P base": 0.25, "R0.5": 0.25, "R1": 0.25}),
    ],
)
def test_shares_of_kernels(name: str, shares: dict[str, float]):
    weights = dict(by_name(ALL)[name].weights)
    total = sum(weights.values())
    assert {kernel: weight / total for kernel, weight in weights.items()} == pytest.approx(shares)


@pytest.mark.parametrize("name", ["mine", "L", "W", "LG", "1", "a+b", "x1 of mine"])
def test_a_view_of_ones_own_may_have_any_name(name: str):
    actual = recipes({**ALL, name: ["own kernel"]})
    assert actual[: len(recipes(ALL))] == recipes(ALL)
    added = [recipe for recipe in actual if "own kernel" in dict(recipe.weights)]
    sums = [f"{of_others}+{name}" for of_others in ("W", "GWW", "LGWWW", "SWW", "PRGW", "LG")]
    assert [recipe.name for recipe in added] == [name, *sums, f"{name}²"]
    alone, windows = dict(added[0].weights), dict(added[1].weights)
    assert alone == {"own kernel": 1.0} and windows["own kernel"] == pytest.approx(sum(windows.values()) / 2)
    assert dict(added[3].weights)["own kernel"] == 2 and sum(w for _, w in added[3].weights) == pytest.approx(7)


def rows_of(seed: int, n: int = 6) -> dict[str, Rows]:
    return {name: random_rows(n, 9, seed + i, constant=0.0)[0] for i, name in enumerate(("a", "b"))}


def test_a_mixture_is_the_mean_and_a_constant():
    rows = rows_of(1)
    recipe = Recipe("ab", (("a", 3.0), ("b", 1.0)))
    actual = recipe.mix(rows)
    torch.testing.assert_close(actual.gram, 0.75 * rows["a"].gram + 0.25 * rows["b"].gram + CONSTANT)
    torch.testing.assert_close(actual.variance, 0.75 * rows["a"].variance + 0.25 * rows["b"].variance + CONSTANT)


def test_a_power_is_that_of_the_cosine():
    rows = rows_of(3, 8)
    recipe = Recipe("ab²", (("a", 1.0), ("b", 1.0)), 2)
    plain = recipe.average(rows)
    norms = plain.variance.sqrt()
    wanted = ((1 + plain.gram / norms[:, None] / norms) / 2) ** 2 + CONSTANT
    actual = recipe.mix(rows)
    torch.testing.assert_close(actual.gram, wanted)
    torch.testing.assert_close(actual.gram.diagonal(), actual.variance)
    assert float(torch.linalg.eigvalsh(actual.gram)[0]) > -1e-12
    new = {name: Rows(kernel_rows.gram[5:], kernel_rows.variance[5:]) for name, kernel_rows in rows.items()}
    torch.testing.assert_close(recipe.mix(new, plain.variance).gram, wanted[5:])
    zero = {"a": Rows(torch.zeros(2, 3).double(), torch.full((2,), 1e-9).double())}
    actual = Recipe("a²", (("a", 1.0),), 2).mix(zero, torch.ones(3).double())
    assert torch.equal(actual.gram, torch.full((2, 3), 0.25 + CONSTANT).double())


def test_states_and_families_of_recipes():
    for recipe in recipes(ALL):
        again = Recipe.from_state(recipe.state())
        assert (again.name, again.weights, again.power) == (recipe.name, recipe.weights, recipe.power)
    actual = {name: recipe.family for name, recipe in by_name(ALL).items()}
    assert actual["L"] == actual["G"] == actual["LG²"] and actual["P"] == actual["PR"] and actual["X"] == actual["3"]
    assert len({actual[name] for name in ("L", "P", "X", "S", "GW", "PRGWS")}) == 6
