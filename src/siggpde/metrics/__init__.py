"""Metrics of predictions: from labels and probabilities, or from numbers and predictive distributions.

Arrays in, plain floats out. scikit-learn's functions are used where they give the same number in every case.
"""

from siggpde.metrics.calibration import CalibrationBins as CalibrationBins
from siggpde.metrics.calibration import calibration_bins as calibration_bins
from siggpde.metrics.classification import ClassificationMetrics as ClassificationMetrics
from siggpde.metrics.classification import classification_metrics as classification_metrics
from siggpde.metrics.regression import RegressionMetrics as RegressionMetrics
from siggpde.metrics.regression import regression_metrics as regression_metrics
from siggpde.metrics.selective import RiskCoverage as RiskCoverage
from siggpde.metrics.selective import SetMetrics as SetMetrics
from siggpde.metrics.selective import risk_coverage as risk_coverage
from siggpde.metrics.selective import set_metrics as set_metrics
