"""The numerical operations on paths: signatures, their kernels and gradients, windows; no Gaussian process in here."""
