"""Small committees of views with members of chosen recipes, fitted in closed form."""

from collections.abc import Sequence

import torch
from torch import Tensor

from siggpde.committee.committee import Committee, Member, ViewCommittee, average_latents
from siggpde.committee.link import fit_link
from siggpde.committee.recipes import Recipe
from siggpde.committee.regression import Targets, fit_exact
from siggpde.explain import Importances
from siggpde.explain.importance import feature_importance
from siggpde.explain.terms import terms_of
from siggpde.series import PathOptions, SeriesBatch
from siggpde.views import KernelView, PathView, Rows, TransformerView, View, WindowsView
from siggpde.views.base import Block, Standard
from siggpde.views.window_features import WindowSettings


class Extremes:
    """A transformer: the largest and the smallest value of every channel."""

    def fit(self, X):
        return self

    def transform(self, X):
        return [[*series.max(axis=1), *series.min(axis=1)] for series in X]


def small_views() -> list[View]:
    """One of each kind, with few words and windows."""
    few = {"max_dilations": 1, "thresholds": 1, "max_windows": 8}
    return [
        WindowsView(WindowSettings(lifts=("x", "dx"), **few)),
        WindowsView(WindowSettings(lifts=("x",), **few), 8),
        PathView("L", degree=1, words=12),
        PathView("base", words=40),
        PathView("free variation", PathOptions(base_point=False, append="variation"), words=40),
        KernelView("P"),
        KernelView("R1", bandwidth=1.0),
        TransformerView("extremes", Extremes()),
    ]


SUMS = [
    Recipe("all", tuple((name, 1.0) for name in ("x1", "x3", "spectrum1", "L", "base", "P", "extremes"))),
    Recipe("some", (("x1", 2.0), ("free variation", 1.0), ("R1", 1.0))),
]
SQUARES = [Recipe("x²", (("x1", 1.0), ("dx3", 2.0)), 2), Recipe("LP³", (("L", 1.0), ("P", 1.0)), 3)]


def view_committee_of(
    batch: SeriesBatch,
    y: Tensor,
    classes: int | None = None,
    recipes: list[Recipe] | None = None,
    views: list[View] | None = None,
) -> ViewCommittee:
    """A member for each recipe, with unequal weights; all series are landmarks."""
    recipes = [*SUMS, *SQUARES] if recipes is None else recipes
    standard = Standard.fit(batch)
    landmarks = standard(batch)
    blocks: list[Block] = []
    rows: dict[str, Rows] = {}
    for view in small_views() if views is None else views:
        block, of_landmarks = view.fit(landmarks)
        blocks.append(block)
        rows |= of_landmarks
    targets = Targets(y, classes)
    fits = [fit_exact(recipe.mix(rows), targets) for recipe in recipes]
    members = [
        Member(recipe, regression, recipe.norms(rows), left_out.score)
        for recipe, (regression, left_out) in zip(recipes, fits, strict=True)
    ]
    weights = torch.arange(1.0, len(members) + 1, dtype=torch.float64)
    committee = ViewCommittee(standard, landmarks, blocks, members, weights / weights.sum())
    if classes is not None:
        means, variances = (torch.stack([getattr(posterior, f) for _, posterior in fits]) for f in ("mean", "variance"))
        committee.link = fit_link(*average_latents(means, variances, committee.weights), targets)
    return committee


def explained(committee: ViewCommittee, batch: SeriesBatch) -> Tensor:
    """Numbers (n, 1), or logits (n, classes): what the explanations of a committee add up to, or differences of it."""
    mean = committee.latents(batch).mean
    return mean if committee.link is None else mean @ committee.link.mixing.T + committee.link.offset


def finite_committee_of(batch: SeriesBatch, y: Tensor, classes: int | None = None) -> ViewCommittee:
    """Members of power 1 on views with finite features, which need no landmarks."""
    views = [view for view in small_views() if not isinstance(view, KernelView)]
    names = ("x1", "x3", "spectrum1", "L", "base", "extremes")
    some = Recipe("some", (("x1", 2.0), ("free variation", 1.0)))
    return view_committee_of(batch, y, classes, [Recipe("all", tuple((name, 1.0) for name in names)), some], views)


def importance_of_features(
    committee: Committee, batch: SeriesBatch, names: Sequence[str], top: int = 10
) -> Importances:
    """Those of single features and of views alone."""
    terms = terms_of(committee)
    return feature_importance(terms, batch, terms.vocabulary(names), top)
