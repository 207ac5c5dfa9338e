"""The operations in plain torch, slow and obvious: the oracles of the fast ones, and the backend of last resort."""
