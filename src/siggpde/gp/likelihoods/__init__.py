"""Likelihoods p(y | f) of one observation given the values of the latent functions."""

from siggpde.gp.likelihoods.base import Classification as Classification
from siggpde.gp.likelihoods.base import Likelihood as Likelihood
from siggpde.gp.likelihoods.classification import Bernoulli as Bernoulli
from siggpde.gp.likelihoods.classification import RobustMax as RobustMax
from siggpde.gp.likelihoods.classification import Softmax as Softmax
from siggpde.gp.likelihoods.regression import Gaussian as Gaussian
from siggpde.gp.likelihoods.regression import Poisson as Poisson
from siggpde.gp.likelihoods.regression import StudentT as StudentT
