"""GPSig (Toth and Oberhauser, 2020), the paper's baselines: inducing tensors (GPSig-IT) or sequences (GPSig-IS)."""

from siggpde_paper.gpsig.kernel import TruncatedKernel as TruncatedKernel
from siggpde_paper.gpsig.models import InducingSequences as InducingSequences
from siggpde_paper.gpsig.models import InducingTensors as InducingTensors
from siggpde_paper.gpsig.models import gpsig as gpsig
