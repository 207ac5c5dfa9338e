"""From sensitivities of the grid's coefficients to gradients of increments: sums in a fixed order, without atomics."""

# Triton's language is not quite Python, and Triton need not be installed to check the types of the rest.
# pyright: reportGeneralTypeIssues=false, reportMissingImports=false, reportPossiblyUnboundVariable=false
# pyright: reportOperatorIssue=false

from __future__ import annotations

import triton
import triton.language as tl

# Sizes change from batch to batch: code is not compiled anew for each.
SIZES = (
    "channels", "own_steps", "other_steps", "others", "out_steps", "partner_steps", "own_stride", "other_stride",
    "row_stride", "column_stride", "partner_own_stride", "partner_other_stride",
)  # fmt: skip
PIECES = ("size", "segments", "channels", "steps", "max_count")


@triton.jit(do_not_specialize=SIZES)
def pull_back(
    rho_bar, partner, out,
    channels, own_steps, other_steps, others, out_steps, partner_steps,
    own_stride, other_stride, row_stride, column_stride, partner_own_stride, partner_other_stride,
    ADD: tl.constexpr, OWN: tl.constexpr, OTHER: tl.constexpr,
):  # fmt: skip
    """out[s][c][i] (+)= sum over series o and steps j of rho_bar[s, o, i, j] partner[s, o][c][j].

    Serves rows (own series x, partner y) and columns (own y, partner x) alike: strides say which.
    """
    blocks = tl.cdiv(own_steps, OWN)
    program = tl.program_id(0).to(tl.int64)
    series = program // (blocks * channels)
    channel = (program // blocks) % channels
    i = (program % blocks) * OWN + tl.arange(0, OWN)[:, None]
    total = tl.zeros([OWN, OTHER], out.dtype.element_ty)
    for other in range(others):
        bar_at = series * own_stride + other * other_stride + i * row_stride
        partner_at = series * partner_own_stride + other * partner_other_stride + channel * partner_steps
        for start in range(0, other_steps, OTHER):
            j = start + tl.arange(0, OTHER)[None, :]
            inside = (i < own_steps) & (j < other_steps)
            bar = tl.load(rho_bar + bar_at + j * column_stride, mask=inside, other=0.0)
            total += bar * tl.load(partner + partner_at + j, mask=j < other_steps, other=0.0)
    row_total = tl.sum(total, 1)
    step = (program % blocks) * OWN + tl.arange(0, OWN)
    address = out + (series * channels + channel) * out_steps + step
    if ADD:
        row_total += tl.load(address, mask=step < own_steps, other=0.0)
    tl.store(address, row_total, mask=step < own_steps)


@triton.jit(do_not_specialize=PIECES)
def collect(
    pieces, starts, counts, out, size, segments, channels, steps, max_count, MEAN: tl.constexpr, BLOCK: tl.constexpr
):
    """out[s][i][c]: the sum of pieces[s][c] over the pieces of segment i, divided by their number if MEAN."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    here = at < size
    channel = at % channels
    segment = at // channels
    series = segment // segments
    start = tl.load(starts + segment, mask=here, other=0)
    count = tl.load(counts + segment, mask=here, other=1)
    first = (series * channels + channel) * steps + start
    total = tl.zeros([BLOCK], out.dtype.element_ty)
    for piece in range(max_count):
        total += tl.load(pieces + first + piece, mask=here & (piece < count), other=0.0)
    if MEAN:
        total = total / count.to(out.dtype.element_ty)
    tl.store(out + at, total, mask=here)
