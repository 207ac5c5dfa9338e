"""CPU seconds of this process and of the processes that it started and waited for."""

import resource
import time


def cpu_seconds() -> float:
    """So many so far; a measurement is the difference of two."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
