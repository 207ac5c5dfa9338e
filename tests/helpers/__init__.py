"""What several tests need: random paths, small models, a pretended device, a server on this machine."""
