"""A table as hospitals have them: dated stays, irregular, with gaps, a channel that is hardly read, and an outcome."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl

OPTIONS = {"series": "stay", "time": "time", "target": "outcome"}
AS_WORDS = [word for name, column in OPTIONS.items() for word in (f"--{name}", column)]


def dated_stays(count: int = 30, seed: int = 0, *, own_starts: bool = True) -> pl.DataFrame:
    """One row a reading over 30 hours or so; lactate, of which a stay has a few readings or none, tells the outcome."""
    generator = np.random.default_rng(seed)
    rows = []
    for stay in range(count):
        start = datetime(2025, 4, 6, 8) + own_starts * timedelta(minutes=int(generator.integers(0, 300 * 1440)))
        minutes = np.unique(np.append(generator.integers(1, 360, 20), 0)) * 5
        pulse = 80 + generator.normal(size=len(minutes)).cumsum()
        for place, (minute, beat) in enumerate(zip(minutes.tolist(), pulse, strict=True)):
            read, often = generator.random(), stay and place % 6 == 2
            rows.append(
                {
                    "stay": f"S{stay:02d}",
                    "time": start + timedelta(minutes=minute),
                    "pulse": round(beat, 1) if read < 0.6 or not minute else None,
                    "lactate": round(1.5 + stay % 2 + generator.normal() / 5, 2) if often else None,
                    "outcome": "died" if stay % 2 else "home",
                }
            )
    return pl.DataFrame(rows)
