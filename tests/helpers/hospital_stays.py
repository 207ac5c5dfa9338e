"""A seeded table of hospital stays: dated, gappy readings, with facts about the patients; its faults are options."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Stays:
    """How the table is made. The answer, "ill" or "well", is decided by `decides`: "age" of the patient, or a "pulse"
    that rises. `windows` stays are there a second time, without their first half; `duplicates` rows share their time
    stamp with the one before; one `broken` row has a pulse that is no number."""

    stays: int = 80
    points: tuple[int, int] = (12, 24)
    decides: str = "age"
    gaps: float = 0.1
    duplicates: int = 0
    windows: int = 0
    broken: bool = False
    seed: int = 0

    def frame(self) -> pd.DataFrame:
        """Returns the rows, one a reading, with the columns stay, patient, when, pulse, pressure, age, sex, device,
        outcome; ages and devices are missing for some stays."""
        random = np.random.default_rng(self.seed)
        rows: list[dict[str, Any]] = []
        for stay in range(self.stays):
            count = int(random.integers(*self.points))
            start = pd.Timestamp("2025-04-01") + pd.Timedelta(minutes=int(random.integers(0, 500_000)))
            times = start + pd.to_timedelta(np.sort(random.choice(2000, count, replace=False)), unit="min")
            age, rises = int(random.integers(20, 95)), bool(random.random() < 0.5)
            ill = age > 60 if self.decides == "age" else rises
            pulse = 75 + random.normal(0, 2, count).cumsum() / 2 + (np.linspace(0, 15, count) if rises else 0)
            beside = {
                "age": None if stay % 15 == 7 else age,
                "sex": random.choice(["f", "m"]),
                "device": None if stay % 11 == 5 else random.choice(["A", "B", "C"], p=[0.6, 0.3, 0.1]),
                "outcome": "ill" if ill else "well",
            }
            readings = np.stack([pulse, 120 + random.normal(0, 5, count)], axis=1).round(1)
            readings[1:][random.random((count - 1, 2)) < self.gaps] = np.nan
            for when, (beats, pressure) in zip(times, readings, strict=True):
                one = {"stay": f"s{stay:03d}", "patient": f"p{stay // 2:03d}", "when": when}
                rows.append({**one, "pulse": beats, "pressure": pressure, **beside})
        return self._with_faults(pd.DataFrame(rows), random)

    def _with_faults(self, table: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
        for number in range(self.windows):  # the second half of a stay, as one of its own
            part = table[table["stay"] == f"s{number:03d}"]
            table = pd.concat([table, part.iloc[len(part) // 2 :].assign(stay=f"w{number:03d}")])
        again = np.sort(random.choice(len(table), self.duplicates, replace=False))
        table = pd.concat([table, table.iloc[again].assign(pulse=lambda rows: rows["pulse"] + 1)])
        table = table.sort_values(["stay", "when"], kind="stable").reset_index(drop=True)
        if self.broken:
            table["pulse"] = table["pulse"].astype(object)
            table.loc[len(table) // 2, "pulse"] = "n. a. (cable)"
        return table

    def write(self, path: Path) -> Path:
        """Writes the table as CSV; returns the path."""
        self.frame().to_csv(path, index=False)
        return path
