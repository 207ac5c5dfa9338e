"""Likelihoods p(y | f) of one observation given the values of the latent functions."""

from siggpde.gp.likelihoods.base import Likelihood as Likelihood
from siggpde.gp.likelihoods.bernoulli import Bernoulli as Bernoulli
from siggpde.gp.likelihoods.gaussian import Gaussian as Gaussian
from siggpde.gp.likelihoods.poisson import Poisson as Poisson
from siggpde.gp.likelihoods.robustmax import RobustMax as RobustMax
from siggpde.gp.likelihoods.softmax import Softmax as Softmax
from siggpde.gp.likelihoods.student_t import StudentT as StudentT
