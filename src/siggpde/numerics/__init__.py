"""The numerical operations on paths: signatures and signature kernels, with gradients; no Gaussian process in here.

- `signature`, `signature_kernel`: the public functions, which check their arguments and call a backend;
- `backend`: which of the three implementations computes for a tensor, `native`, `triton` or `reference`;
- `gradients`: Algorithms 1 and 2 of the SigGPDE paper, for `gradient="augmented"` and `gradient="variation"`.
"""
