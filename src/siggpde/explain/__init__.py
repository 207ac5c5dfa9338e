"""Explanations of predictions: by words, by channels and by the steps of a series."""

from siggpde.explain.importance import Importance as Importance
from siggpde.explain.importance import Importances as Importances
from siggpde.explain.importance import global_importance as global_importance
from siggpde.explain.series_explanation import Contribution as Contribution
from siggpde.explain.series_explanation import SeriesExplanation as SeriesExplanation
from siggpde.explain.series_explanation import explain_series as explain_series
from siggpde.explain.time_steps import TimeAttribution as TimeAttribution
from siggpde.explain.time_steps import time_attribution as time_attribution
