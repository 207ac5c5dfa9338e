"""Plots of metrics, models and explanations. Every function takes matplotlib axes, or makes some, and returns them."""

from siggpde.plots.axes import require_matplotlib as require_matplotlib
from siggpde.plots.calibration import plot_calibration as plot_calibration
from siggpde.plots.confusion import plot_confusion as plot_confusion
from siggpde.plots.directions import kernel_directions as kernel_directions
from siggpde.plots.effects import plot_effects as plot_effects
from siggpde.plots.effects import plot_paper_reading as plot_paper_reading
from siggpde.plots.explanation import plot_explanation as plot_explanation
from siggpde.plots.history import plot_history as plot_history
from siggpde.plots.history import plot_trials as plot_trials
from siggpde.plots.importances import plot_importance as plot_importance
from siggpde.plots.intervals import plot_intervals as plot_intervals
from siggpde.plots.novelty import plot_novelty as plot_novelty
from siggpde.plots.pit import plot_pit as plot_pit
from siggpde.plots.selective import plot_risk_coverage as plot_risk_coverage
from siggpde.plots.series import plot_series as plot_series
from siggpde.plots.series_map import plot_map as plot_map
from siggpde.plots.sizes import plot_sizes as plot_sizes
from siggpde.plots.weights import plot_weights as plot_weights
