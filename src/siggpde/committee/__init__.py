"""Committees: several models of one data set, the weights of their average, and its calibration."""
