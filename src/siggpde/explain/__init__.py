"""Explanations of predictions: by words and other features, by channels, by views and by the steps of a series."""

from siggpde.explain.contributions import explain_series as explain_series
from siggpde.explain.counterfactual import Counterfactual as Counterfactual
from siggpde.explain.importance import global_importance as global_importance
from siggpde.explain.importance import paper_reading as paper_reading
from siggpde.explain.results import ClassEffects as ClassEffects
from siggpde.explain.results import Contribution as Contribution
from siggpde.explain.results import Effect as Effect
from siggpde.explain.results import Importance as Importance
from siggpde.explain.results import Importances as Importances
from siggpde.explain.results import Neighbour as Neighbour
from siggpde.explain.results import PaperReading as PaperReading
from siggpde.explain.results import SegmentContributions as SegmentContributions
from siggpde.explain.results import SeriesExplanation as SeriesExplanation
from siggpde.explain.results import Stretch as Stretch
from siggpde.explain.results import WordWeight as WordWeight
from siggpde.explain.shapley import PermutationSettings as PermutationSettings
from siggpde.explain.shapley import deletion_curve as deletion_curve

WalkSettings = PermutationSettings
"""Another name of `PermutationSettings`."""
