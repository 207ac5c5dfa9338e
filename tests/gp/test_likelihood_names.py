"""The list of likelihoods that the command line has without torch is that of the classes."""

import subprocess
import sys

from siggpde.gp.likelihood_names import LikelihoodName, names_for
from siggpde.gp.likelihoods.base import Classification, Likelihood


def test_names_tasks_and_closed_forms_are_those_of_the_classes():
    classes = Likelihood.registered().items()
    registered = {name: kind for name, kind in classes if kind.__module__.startswith("siggpde.")}
    assert {name.value for name in LikelihoodName} == {"auto", "least_squares", *registered}
    for name, kind in registered.items():
        assert LikelihoodName(name).closed_form == kind.is_gaussian
        classifies = issubclass(kind, Classification)
        assert (name in names_for("classification"), name in names_for("regression")) == (classifies, not classifies)


def test_the_names_are_known_without_torch():
    code = "import sys, siggpde.gp.likelihood_names; print('torch' in sys.modules)"
    flags = ["-S"] if sys.flags.no_site else []
    done = subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
