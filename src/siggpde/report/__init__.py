"""Reports and cards: what a model is, how good it is and what it rests on, as one HTML page or a few lines."""
