"""Several models of one data set: their weights, and how sure the average is of itself."""
