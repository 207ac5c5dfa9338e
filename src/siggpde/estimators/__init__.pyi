from .classifier import SigGPClassifier as SigGPClassifier
from .regressor import SigGPRegressor as SigGPRegressor
