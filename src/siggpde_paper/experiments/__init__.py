"""The experiments of the SigGPDE paper: one TOML file of settings, one module and one command for each."""

from siggpde_paper.experiments.reproduction import NAMES, folder_of, reproduce, reproduce_all

__all__ = ["NAMES", "folder_of", "reproduce", "reproduce_all"]
