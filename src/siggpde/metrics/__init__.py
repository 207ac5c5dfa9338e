"""Metrics of predictions, plain floats: from labels and probabilities, or from numbers and predictive distributions."""

from siggpde.metrics.classification import CalibrationBins as CalibrationBins
from siggpde.metrics.classification import ClassificationMetrics as ClassificationMetrics
from siggpde.metrics.classification import RiskCoverage as RiskCoverage
from siggpde.metrics.classification import SetMetrics as SetMetrics
from siggpde.metrics.classification import calibration_bins as calibration_bins
from siggpde.metrics.classification import classification_metrics as classification_metrics
from siggpde.metrics.classification import risk_coverage as risk_coverage
from siggpde.metrics.classification import set_metrics as set_metrics
from siggpde.metrics.regression import RegressionMetrics as RegressionMetrics
from siggpde.metrics.regression import regression_metrics as regression_metrics
