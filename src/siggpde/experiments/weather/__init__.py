"""The weather experiment of the paper: rain in the next hour at a weather station."""

from siggpde.experiments.weather.experiment import report as report
from siggpde.experiments.weather.experiment import run as run
