"""A batch of series whose paths the RBF kernel lifts, prepared for the grids; gradients in its parameters."""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.numerics.static_kernel import StaticKernel, squared_segments
from siggpde.numerics.triton.batch import Batch, Part


class LiftedBatch(Batch):
    """The segments of lifted paths, and how each series is planned.

    `values` (n, length - 1, 2 channels + 2) are start and end over the bandwidth, the amplitude, and 1; zeros after the
    end of a series. `squared` are squared lengths in the Hilbert space of the kernel.
    """

    lifted = True

    def __init__(self, x: Tensor, lengths: Tensor | None, static: StaticKernel, theta: Tensor | None = None):
        _, self.bandwidth, self.amplitude, _ = static.numbers
        self.static = static._replace(bandwidth=self.bandwidth, amplitude=self.amplitude)
        super().__init__(x, lengths, theta)

    def _measure(self, points: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
        points = torch.where(inside, points, 0.0)
        self.points = points / self.bandwidth
        ones = torch.ones_like(points[:, 1:, :1])
        fields = [self.points[:, :-1], self.points[:, 1:], ones * self.amplitude, ones]
        squared = squared_segments(self.static, points.double())
        return torch.where(inside[:, 1:], torch.cat(fields, 2), 0.0), torch.where(inside[:, 1:, 0], squared, 0.0)

    def _pieces(self, values: Tensor, counts: Tensor, segment: Tensor, piece: Tensor) -> Tensor:
        """Pieces of a segment share its points: what is divided by their number is the amplitude."""
        pieces = values.gather(1, segment[:, :, None].expand(-1, -1, values.shape[2]))
        pieces[:, :, -2] /= counts.gather(1, segment)
        pieces[:, :, -1] = (counts.cumsum(1).gather(1, segment) == piece + 1).to(values)
        return pieces

    def of_segments(self, part: Part, pieces: Tensor) -> Tensor:
        out = super().of_segments(part, pieces)
        out[:, :, -2] /= self.plans.counts[part.members]
        return out

    def of_points(self, of_segments: Tensor) -> Tensor:
        return self._of_scaled(of_segments) / self.bandwidth

    def of_log_scales(self, of_segments: Tensor, centre: Tensor) -> Tensor:
        """Gradients in the logarithms of factors of the channels, (n, channels), float64.

        A common shift of all points changes nothing; `centre` is subtracted, because their gradients cancel only to
        rounding.
        """
        return ((self.points.double() - centre) * self._of_scaled(of_segments).double()).sum(1)

    def of_log_parameters(self, of_segments: Tensor, centre: Tensor) -> Tensor:
        """Gradients in the logarithms of bandwidth and amplitude, (n, 2), float64."""
        bandwidth = -self.of_log_scales(of_segments, centre).sum(1)
        amplitude = of_segments[:, :, -2].double().sum(1) * self.amplitude
        return torch.stack([bandwidth, amplitude], 1)

    def _of_scaled(self, of_segments: Tensor) -> Tensor:
        """Gradients in points over the bandwidth."""
        channels, pad = self.shape[2], torch.nn.functional.pad
        start, end = of_segments[:, :, :channels], of_segments[:, :, channels : 2 * channels]
        return pad(start, (0, 0, 0, 1)) + pad(end, (0, 0, 1, 0))


def make_batch(x: Tensor, lengths: Tensor | None, static: StaticKernel | None, theta: Tensor | None = None) -> Batch:
    """The batch of the paths, scaled by theta (channels,), and lifted if there is a static kernel."""
    return Batch(x, lengths, theta) if static is None else LiftedBatch(x, lengths, static, theta)
