"""The numerical operations on paths: signatures and signature kernels, with gradients. No Gaussian process in here."""
