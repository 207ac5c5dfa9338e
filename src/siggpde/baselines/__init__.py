"""GPSig, the baseline: Gaussian processes with truncated signature kernels and inducing tensors or sequences."""

from siggpde.baselines.inducing_sequences import InducingSequences as InducingSequences
from siggpde.baselines.inducing_tensors import InducingTensors as InducingTensors
from siggpde.baselines.initialisation import gpsig as gpsig
from siggpde.baselines.truncated_kernel import TruncatedKernel as TruncatedKernel
