"""`method="views"`: the PDE is solved by default, views can be chosen, and gaps and lengths go through."""

from typing import Any

import numpy as np
import pytest

from helpers.small_estimators import outputs, rising
from siggpde import SigGPClassifier, SigGPRegressor
from siggpde.estimators.settings import chosen_views
from siggpde.numerics.signature_kernel import PreparedSeries
from siggpde.views import KernelView, TransformerView
from siggpde.views import kernels as kernel_module
from siggpde.views.kinds import KINDS

X, Y = rising(24)
ESTIMATORS = {"classifier": SigGPClassifier, "regressor": SigGPRegressor}
both = pytest.mark.parametrize("kind", ESTIMATORS)


class Ends:
    """The last value of every channel."""

    def fit(self, X: Any) -> "Ends":
        return self

    def transform(self, X: Any) -> np.ndarray:
        return np.stack([x[:, -1] for x in X])


@both
def test_the_pde_is_solved_by_default(kind: str, monkeypatch: pytest.MonkeyPatch):
    """Pairs of series whose signature kernel is solved in a fit and in a prediction."""
    solved: list[tuple[str, int]] = []
    original = kernel_module.signature_kernel

    def counting(x: Any, y: Any = None, **settings: Any) -> Any:
        solved.append((settings.get("static", "linear"), len(x) * len(x if y is None else y)))
        return original(x, y, **settings)

    class Counting(PreparedSeries):
        def __call__(self, y: Any, lengths: Any = None) -> Any:
            gram = super().__call__(y, lengths)
            solved.append(("prepared", gram.numel()))
            return gram

    monkeypatch.setattr(kernel_module, "signature_kernel", counting)
    monkeypatch.setattr(kernel_module, "PreparedSeries", Counting)
    fitted = ESTIMATORS[kind]().fit(X, Y)
    assert {static for static, _ in solved} - {"prepared"} == {"linear", "rbf"}
    assert sum(pairs for _, pairs in solved) >= 4 * 24 * 24  # two kernels of paths, two of lifts
    solved.clear()
    alone = ESTIMATORS[kind](views=["kernel"]).fit(X, Y)
    solved.clear()
    alone.predict(X[:5])
    assert sum(pairs for _, pairs in solved) == 5 * 24 * len(alone.committee_.blocks)
    assert all(isinstance(block.view, KernelView) for block in alone.committee_.blocks)
    assert (np.round(fitted.predict(X)) == Y).mean() > 0.8


@both
@pytest.mark.parametrize("views", [[kind] for kind in KINDS if kind != "spectrum"] + [["linear", ("ends", Ends())]])
def test_views_can_be_chosen(kind: str, views: list[Any]):
    fitted = ESTIMATORS[kind](views=views).fit(X, Y)
    chosen = {given if isinstance(given, str) else "features" for given in views}
    assert {block.kind for block in fitted.committee_.blocks} <= chosen
    assert np.isfinite(outputs(fitted, X)).all()


def test_what_is_asked_for():
    assert chosen_views("auto") == (KINDS, ())
    kinds, transformers = chosen_views(["path", "auto", ("mine", Ends())])
    assert set(kinds) == set(KINDS) and len(kinds) == len(KINDS) and len(transformers) == 1
    assert isinstance(transformers[0], TransformerView) and transformers[0].name == "mine"


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ("waves", "views has 'waves'"),
        ([], "must be 'auto' or a list"),
        (3, "must be 'auto' or a list"),
        ([("mine",)], r"views has \('mine',\)"),
        ([("path", Ends())], "needs a name of its own, got 'path'"),
        ([("a", Ends()), ("a", Ends())], "needs a name of its own, got 'a'"),
        ([("", Ends())], "needs a name of its own"),
        ([("mine", object())], "'mine' has no method fit"),
    ],
)
def test_what_are_no_views(views: Any, message: str):
    with pytest.raises(ValueError, match=message):
        SigGPClassifier(views=views).fit(X, Y)


def test_classes_are_found_in_what_only_windows_see():
    """A bump somewhere in noise: position and shape of the whole path say little."""
    random = np.random.default_rng(0)
    series, labels = random.normal(size=(80, 1, 60)), np.arange(80) % 2
    for row, label in zip(series, labels, strict=True):
        if label:
            start = random.integers(0, 45)
            row[0, start : start + 12] += 3 * np.sin(np.arange(12))
    fitted = SigGPClassifier(views=["windows"]).fit(series[:60], labels[:60])
    assert fitted.score(series[60:], labels[60:]) > 0.8
