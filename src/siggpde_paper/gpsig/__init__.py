"""The baselines of the paper, GPSig-IT and GPSig-IS (Toth and Oberhauser, 2020).

Gaussian processes with truncated signature kernels and inducing tensors (IT) or inducing sequences (IS).
"""

from siggpde_paper.gpsig.gpsig_model import gpsig as gpsig
from siggpde_paper.gpsig.inducing_sequences import InducingSequences as InducingSequences
from siggpde_paper.gpsig.inducing_tensors import InducingTensors as InducingTensors
from siggpde_paper.gpsig.truncated_kernel import TruncatedKernel as TruncatedKernel
