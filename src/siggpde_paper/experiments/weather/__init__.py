"""The weather experiment of the paper: rain in the next hour at a weather station."""

from siggpde_paper.experiments.weather.experiment import report as report
from siggpde_paper.experiments.weather.experiment import run as run
