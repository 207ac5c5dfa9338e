from .siggp import SigGPClassifier as SigGPClassifier
from .siggp import SigGPRegressor as SigGPRegressor
