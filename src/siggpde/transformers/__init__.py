"""Series to tables of features, with the conventions of scikit-learn and, where it is installed, of aeon."""
