"""Small data files of every format, and damaged copies of them: what readers must refuse in words, or read."""

import io
import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from siggpde.io import read, stream

_VALUES = np.random.default_rng(0).normal(size=(6, 2, 9))
_LABELS = np.array(["up", "down"] * 3)

TS = (
    "@problemName small\n@timeStamps false\n@univariate false\n@dimension 2\n@equalLength true\n@seriesLength 3\n"
    "@classLabel true up down\n@data\n1,2,3:4,?,6:up\n7,8,9:1e3,-5,0:down\n"
)
STAMPED = (
    "@problemName stamped\n@timeStamps true\n@classLabel true a b\n@data\n"
    "(2007-01-01 00:00:00,2.5),(2007-01-01 00:01:00,?):(2007-01-01 00:00:00,1):a\n(1,2),(2,3):(1,1),(5,2):b\n"
)
ARFF = (
    "@relation small\n@attribute a0 numeric\n@attribute a1 real\n@attribute class {up,down}\n@data\n1,2,up\n3,?,down\n"
)
RELATIONAL = (
    "@relation many\n@attribute bag relational\n@attribute t1 numeric\n@attribute t2 numeric\n@end bag\n"
    "@attribute class {a,b}\n@data\n'1,2\\n3,4',a\n'5,6\\n7,8',b\n"
)
LONG_CSV = "who,day,x,y,kind\n" + "".join(f"w{i // 5},{i % 5},{i * 0.5},{-i},{'AB'[i // 5 % 2]}\n" for i in range(20))
WIDE_CSV = "kind,x_0,x_1,y_0,y_1\n" + "".join(f"{'AB'[i % 2]},{i},{i + 1}.5,{-i},\n" for i in range(8))


def written(save: Callable[..., Any], *values: Any, **more: Any) -> bytes:
    """What a function writes to a file."""
    buffer = io.BytesIO()
    save(buffer, *values, **more)
    return buffer.getvalue()


def originals() -> list[tuple[str, bytes, dict[str, Any]]]:
    """(suffix, content, options of `read`) of whole files."""
    parquet = pl.read_csv(LONG_CSV.encode()).write_parquet
    long: dict[str, Any] = {"series": "who", "time": "day", "target": "kind"}
    split = {"X_train": _VALUES, "y_train": _LABELS, "X_test": _VALUES[:2], "y_test": _LABELS[:2]}
    lengths = np.array([9, 8, 7, 9, 9, 9])
    arrays = {"X": _VALUES, "y": _LABELS, "lengths": lengths, "channel_names": np.array(["a", "b"])}
    arrays |= {"ids": np.arange(6), "name": np.array("small")}
    return [
        ("npy", written(np.save, _VALUES), {}),
        ("npy", written(np.save, np.asfortranarray(_VALUES[:, 0].astype(">f4"))), {}),
        ("npy", written(np.save, _VALUES), {"mmap": True}),
        ("npz", written(np.savez, **arrays), {}),
        ("npz", written(np.savez_compressed, **arrays), {}),
        ("npz", written(np.savez_compressed, **split), {"part": "train"}),
        ("csv", LONG_CSV.encode(), long),
        ("csv", WIDE_CSV.encode(), {"target": "kind"}),
        ("csv", WIDE_CSV.encode("utf-16"), {"target": "kind"}),
        ("parquet", written(parquet, compression="zstd"), long),
        ("parquet", written(parquet, compression="uncompressed"), long),
        ("parquet", written(parquet, compression="snappy"), long),
        ("ts", TS.encode(), {}),
        ("ts", STAMPED.encode(), {}),
        ("arff", ARFF.encode(), {}),
        ("arff", RELATIONAL.encode(), {}),
    ]


def damaged(content: bytes, generator: random.Random) -> bytes:
    """The content after one to four accidents: bits, bytes, numbers and pieces changed, cut, doubled or moved."""
    data = bytearray(content)
    for _ in range(generator.choice([1, 1, 1, 2, 4])):
        at = generator.randrange(len(data)) if data else 0
        to = min(len(data), at + generator.choice([1, 2, 4, 8, 40]))
        kind = generator.randrange(9)
        if kind == 0 and data:
            data[at] ^= 1 << generator.randrange(8)
        elif kind == 1:
            data[at:to] = generator.randbytes(to - at)
        elif kind == 2:
            del data[at:to]
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            data[at:at] = data[at:to] * generator.choice([1, 3, 1000])
        elif kind == 5:
            data[at:to] = generator.choice([b"\x00", b"\xff", b"\x7f", b"9", b"("]) * (to - at)
        elif kind == 6:
            pieces = [b"nan", b"1e999", b"-", b",", b"'", b'"', b":", b"@", b"\n", b"\r", b"\xc3"]
            data[at:at] = generator.choice(pieces)
        elif kind == 7:
            piece = data[at:to]
            del data[at:to]
            place = generator.randrange(len(data) + 1)
            data[place:place] = piece
        else:
            digits = [place for place, byte in enumerate(data) if 48 <= byte <= 57]
            if digits:
                place = generator.choice(digits)
                data[place : place + 1] = generator.choice([b"99999999", b"-1", b"0", b"x", b"1e400"])
    return bytes(data)


def damaged_files(folder: Path, count: int, seed: int) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Writes `count` damaged files, of all formats in turn, one after the other; each with the options to read it."""
    generator = random.Random(seed)
    whole = originals()
    for number in range(count):
        suffix, content, options = whole[number % len(whole)]
        path = folder / f"{number}.{suffix}"
        inside = suffix == "npz" and generator.random() < 0.5
        path.write_bytes(_rezipped(content, generator) if inside else damaged(content, generator))
        yield path, options
        path.unlink()


def _rezipped(content: bytes, generator: random.Random) -> bytes:
    """An archive whose check sums are right, but one of whose members is damaged."""
    source, target = zipfile.ZipFile(io.BytesIO(content)), io.BytesIO()
    victim = generator.choice(source.namelist())
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in source.namelist():
            member = source.read(name)
            archive.writestr(name, damaged(member, generator) if name == victim else member)
    return target.getvalue()


def trouble_with(path: Path, options: dict[str, Any]) -> str | None:
    """What is wrong with how a damaged file is read; None where it is read, or refused by a message with its name."""
    try:
        read(path, **options)
        if path.suffix in (".npy", ".parquet"):
            list(stream(path, **{key: options[key] for key in ("series", "time") if key in options}).blocks(3))
    except (ValueError, FileNotFoundError) as error:
        if isinstance(error, UnicodeError) or path.name not in str(error):
            return f"{path.name}: {type(error).__name__}: {error}"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{path.name}: {type(error).__name__}: {error}"
    return None
