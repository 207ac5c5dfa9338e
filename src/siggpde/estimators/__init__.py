"""Estimators with the conventions of scikit-learn and, where it is installed, of aeon."""

from siggpde.estimators.classifier import SigGPClassifier as SigGPClassifier
from siggpde.estimators.regressor import SigGPRegressor as SigGPRegressor
