"""Transformers from series to tables of features, for scikit-learn and, where it is installed, aeon."""
