"""Automatic choice of settings: candidates, their trials by leave-one-out, and the screening that picks the best."""
