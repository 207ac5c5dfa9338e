"""Likelihoods p(y | f) of one observation given the values of the latent functions; their code is in `siggpde.gp`."""

from siggpde.gp.gpytorch import from_gpytorch
from siggpde.gp.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, RobustMax, Softmax, StudentT

__all__ = ["Bernoulli", "Gaussian", "Likelihood", "Poisson", "RobustMax", "Softmax", "StudentT", "from_gpytorch"]
