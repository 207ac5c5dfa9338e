"""Likelihoods p(y | f) of one observation given the values of the latent functions."""

from siggpde.likelihoods.adapter import from_gpytorch as from_gpytorch
from siggpde.likelihoods.base import Likelihood as Likelihood
from siggpde.likelihoods.bernoulli import Bernoulli as Bernoulli
from siggpde.likelihoods.gaussian import Gaussian as Gaussian
from siggpde.likelihoods.least_squares import LeastSquares as LeastSquares
from siggpde.likelihoods.poisson import Poisson as Poisson
from siggpde.likelihoods.robustmax import RobustMax as RobustMax
from siggpde.likelihoods.softmax import Softmax as Softmax
from siggpde.likelihoods.student_t import StudentT as StudentT
