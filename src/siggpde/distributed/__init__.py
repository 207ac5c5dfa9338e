"""Several processes that train one model: what they send each other, and who holds which series."""
