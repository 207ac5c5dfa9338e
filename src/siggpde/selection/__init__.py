"""Settings without a human: candidates, their trials, and the screening that picks the best."""
