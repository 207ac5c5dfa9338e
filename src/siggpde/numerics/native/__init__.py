"""The operations by the native core `siggpde._core`, compiled from csrc/."""
