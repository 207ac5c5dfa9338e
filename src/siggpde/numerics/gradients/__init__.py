"""The two gradient algorithms of the SigGPDE paper (Lemercier et al., 2021, section 4), in plain torch.

`augmented` is Algorithm 1, `variation` is Algorithm 2 (Theorem 4.1); `kernel` computes signature kernels with either.
The default, `gradient="adjoint"`, the exact derivative of the discrete solver, is computed by the backends.
"""
