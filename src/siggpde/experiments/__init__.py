"""The experiments of the SigGPDE paper: one TOML file of settings, one module and one command for each."""

from siggpde.experiments.reproduction import NAMES, reproduce

__all__ = ["NAMES", "reproduce"]
