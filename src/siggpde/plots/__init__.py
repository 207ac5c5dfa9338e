"""Plots of metrics, models and explanations. Every function takes matplotlib axes, or makes some, and returns them."""

from siggpde.plots.classification import plot_calibration as plot_calibration
from siggpde.plots.classification import plot_confusion as plot_confusion
from siggpde.plots.classification import plot_risk_coverage as plot_risk_coverage
from siggpde.plots.explanation import plot_explanation as plot_explanation
from siggpde.plots.explanation import plot_series as plot_series
from siggpde.plots.importance import plot_effects as plot_effects
from siggpde.plots.importance import plot_importance as plot_importance
from siggpde.plots.importance import plot_paper_reading as plot_paper_reading
from siggpde.plots.map import kernel_directions as kernel_directions
from siggpde.plots.map import plot_map as plot_map
from siggpde.plots.novelty import plot_novelty as plot_novelty
from siggpde.plots.regression import plot_intervals as plot_intervals
from siggpde.plots.regression import plot_pit as plot_pit
from siggpde.plots.style import require_matplotlib as require_matplotlib
from siggpde.plots.training import plot_history as plot_history
from siggpde.plots.training import plot_sizes as plot_sizes
from siggpde.plots.training import plot_trials as plot_trials
from siggpde.plots.training import plot_weights as plot_weights
