"""GPSig, the baseline: Gaussian processes with truncated signature kernels and inducing tensors or sequences."""

from siggpde.baselines.sequences import InducingSequences as InducingSequences
from siggpde.baselines.start import gpsig as gpsig
from siggpde.baselines.tensors import InducingTensors as InducingTensors
from siggpde.baselines.truncated import TruncatedKernel as TruncatedKernel
