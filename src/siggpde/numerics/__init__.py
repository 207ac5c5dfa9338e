"""The numerical operations on paths: signatures, their kernels and gradients, windows; no Gaussian process in here.

`words`, `signature`, `logsignature`, `signature_kernel` and `windows` have the public functions; `backend` chooses who
computes: `native` (the compiled `core`), `triton` or `reference`.
"""
