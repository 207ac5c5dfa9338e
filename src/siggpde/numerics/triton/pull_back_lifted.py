r"""From sensitivities of the grid's coefficients to gradients of the pieces of lifted paths, in a fixed order.

With m(u, v) = exp(-|u - v|^2/2) - 1 the coefficient of a piece from u to u' with factor f and one from v to v' with
factor g is rho = f g (m(u', v') - m(u, v') - m(u', v) + m(u, v)), and dm/du = -(u - v)(1 + m).
"""

# Triton's language is not quite Python, and Triton need not be installed to check the types of the rest.
# pyright: reportGeneralTypeIssues=false, reportMissingImports=false, reportPossiblyUnboundVariable=false
# pyright: reportOperatorIssue=false

from __future__ import annotations

import triton
import triton.language as tl

from siggpde.numerics.triton.coefficients import kappa_less_one
from siggpde.numerics.triton.pull_back import SIZES


@triton.jit
def load_two(memory, at, steps, channels, inside):
    """A channel of the start and of the end of pieces."""
    start = tl.load(memory + at, mask=inside, other=0.0)
    return start, tl.load(memory + at + channels * steps, mask=inside, other=0.0)


@triton.jit
def add_rows(out, at, tile, inside):
    """Adds the rows' sums of a tile to memory."""
    total = tl.load(out + at, mask=inside, other=0.0) + tl.sum(tile, 1)
    tl.store(out + at, total, mask=inside)


@triton.jit(do_not_specialize=SIZES)
def pull_back_lifted(
    rho_bar, own, partner, out,
    channels, own_steps, other_steps, others, out_steps, partner_steps,
    own_stride, other_stride, row_stride, column_stride, partner_own_stride, partner_other_stride,
    OWN: tl.constexpr, OTHER: tl.constexpr,
):  # fmt: skip
    """out[s][field][i] += sum over series o and steps j of rho_bar[s, o, i, j] drho/down[s][field][i].

    Fields are those of `coefficients`; the last has no gradient. Strides are those of `pull_back`. One program has all
    fields of some steps, because the kernels of a tile serve every channel.
    """
    blocks = tl.cdiv(own_steps, OWN)
    program = tl.program_id(0).to(tl.int64)
    series = program // blocks
    step = (program % blocks) * OWN + tl.arange(0, OWN)
    i = step[:, None]
    here = i < own_steps
    own_first = series * (2 * channels + 2) * out_steps
    factor = tl.load(own + own_first + 2 * channels * out_steps + i, mask=here, other=0.0)
    for other in range(others):
        bar_at = series * own_stride + other * other_stride + i * row_stride
        partner_first = series * partner_own_stride + other * partner_other_stride
        for begin in range(0, other_steps, OTHER):
            j = begin + tl.arange(0, OTHER)[None, :]
            there = j < other_steps
            inside = here & there
            bar = tl.load(rho_bar + bar_at + j * column_stride, mask=inside, other=0.0)
            bar = bar * tl.load(partner + partner_first + 2 * channels * partner_steps + j, mask=there, other=0.0)
            u = own_first + i
            v = partner_first + j
            u_end = u + channels * out_steps
            v_end = v + channels * partner_steps
            from_from = kappa_less_one(own, partner, u, v, out_steps, partner_steps, channels, inside)
            from_to = kappa_less_one(own, partner, u, v_end, out_steps, partner_steps, channels, inside)
            to_from = kappa_less_one(own, partner, u_end, v, out_steps, partner_steps, channels, inside)
            to_to = kappa_less_one(own, partner, u_end, v_end, out_steps, partner_steps, channels, inside)
            difference = (to_to - to_from) - (from_to - from_from)
            out_at = own_first + step
            add_rows(out, out_at + 2 * channels * out_steps, bar * difference, step < own_steps)
            pull = bar * factor
            from_from = pull * (1.0 + from_from)
            from_to = pull * (1.0 + from_to)
            to_from = pull * (1.0 + to_from)
            to_to = pull * (1.0 + to_to)
            for channel in range(channels):
                u0, u1 = load_two(own, u + channel * out_steps, out_steps, channels, here)
                v0, v1 = load_two(partner, v + channel * partner_steps, partner_steps, channels, there)
                at = out_at + channel * out_steps
                add_rows(out, at, from_to * (u0 - v1) - from_from * (u0 - v0), step < own_steps)
                add_rows(out, at + channels * out_steps, to_from * (u1 - v0) - to_to * (u1 - v1), step < own_steps)
            tl.debug_barrier()  # what a thread has added, another one may load
