"""The Gaussian process: kernel, inducing features, q(u), likelihoods, the model."""
