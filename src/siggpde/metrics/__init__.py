"""How good predictions are, and how honest."""

from siggpde.metrics.measures import CalibrationBins as CalibrationBins
from siggpde.metrics.measures import ClassificationMetrics as ClassificationMetrics
from siggpde.metrics.measures import RegressionMetrics as RegressionMetrics
from siggpde.metrics.measures import calibration_bins as calibration_bins
from siggpde.metrics.measures import classification_metrics as classification_metrics
from siggpde.metrics.measures import regression_metrics as regression_metrics
