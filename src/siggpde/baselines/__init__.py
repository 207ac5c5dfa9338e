"""The baselines of the paper, GPSig-IT and GPSig-IS (Toth and Oberhauser, 2020).

Gaussian processes with truncated signature kernels and inducing tensors (IT) or inducing sequences (IS).
"""

from siggpde.baselines.gpsig_model import gpsig as gpsig
from siggpde.baselines.inducing_sequences import InducingSequences as InducingSequences
from siggpde.baselines.inducing_tensors import InducingTensors as InducingTensors
from siggpde.baselines.truncated_kernel import TruncatedKernel as TruncatedKernel
