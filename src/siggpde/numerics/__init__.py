"""The numerical operations on paths: signatures, their kernels and gradients, windows; no Gaussian process in here.

- `words`, `signature`, `logsignature`, `signature_kernel`, `windows`: the public functions, which check their arguments
  by `inputs` and call a backend;
- `backend`: which implementation computes for a tensor: `native` (the compiled `core`), `triton` or `reference`;
- `goursat`: the PDE of the signature kernel in plain torch; `static_kernels` lift its paths; `gradients` are
  Algorithms 1 and 2 of the SigGPDE paper.
"""
