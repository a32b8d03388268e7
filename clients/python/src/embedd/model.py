"""The model file: read, checked and applied."""
from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from embedd import maps
from embedd.rows import Floats, matrix

MAGIC = b"embedd\r\n"
NEWEST_VERSION = 2
NULLS = ("reject", "impute", "skip")
FLOAT32_END = 2.0**128  # the least magnitude that float32 does not reach
# Numbers that transform holds at once for each of its steps, as a limit on memory: 32 MiB.
CHUNK = 4 << 20


class ModelError(ValueError):
    """The bytes are not a model file, or are damaged."""


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted projection from `features` to `dim` outputs. It does not change. Two models of the same digest are equal."""

    digest: str  #: SHA-256 of the content, in hexadecimal: the identity of the model
    method: str
    map: str  #: kind of the map: linear, views, kernel, sum, nystrom, barycentric, geodesic, tangent or similarity
    dim: int
    features: tuple[str, ...] = field(repr=False)
    classes: tuple[str, ...] = field(repr=False)  #: empty: fitted without labels
    rows: int  #: number of rows that the model was fitted on
    unit: bool  #: each row is first divided by its Euclidean norm
    informative_rank: int  #: leading outputs that the criterion decides
    params: Mapping[str, str]  #: every parameter, with the value that the fit used
    mean: Floats = field(repr=False)
    scale: Floats = field(repr=False)
    eigenvalues: Floats = field(repr=False)
    arrays: Mapping[str, Floats] = field(repr=False)  #: of the map, see docs/model-file.md
    note: Mapping[str, Any] = field(repr=False)  #: created, version, epoch, source ...
    report: Mapping[str, Any] = field(repr=False)  #: what the fit found and decided

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Model:
        """The model in a file. A damaged file is a ModelError; no part of it is used."""
        with open(path, "rb") as file:
            data = file.read()
        try:
            return Model.from_bytes(data)
        except ModelError as e:
            raise ModelError(f"{os.fspath(path)}: {e}") from e

    @staticmethod
    def from_bytes(data: bytes) -> Model:
        """The model in the bytes of a file, such as an object of a model store."""
        if data[:8] != MAGIC:
            raise ModelError("not a model file: it does not start with the magic bytes")
        version = _length(data, 8)
        if version not in range(1, NEWEST_VERSION + 1):
            raise ModelError(f"version {version}, this package reads versions 1 to {NEWEST_VERSION}: upgrade it")
        content, end = _section(data, 16, "content")
        notes, end = _section(data, end, "note")
        if end != len(data):
            raise ModelError(f"{len(data) - end} bytes follow the model")
        head, at = _header(content)
        remarks, _ = _header(notes)
        try:
            return _build(content, at, head, remarks, version)
        except ModelError:
            raise
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError) as e:
            raise ModelError(f"the header has another form than documented: {e!r}") from e

    def transform(self, x: Any, nulls: str | None = None) -> Floats:
        """The outputs of rows, n x dim in float64, by the definition in docs/model-file.md.

        x is a matrix with the features in the order of the model, or a data frame with columns of their names; columns that
        the fit encoded (`--categories`, `--dates`) hold text and dates as there. nulls says
        what becomes of rows with a value that is missing (NaN, infinite) or beyond float32: by default what the fit did,
        as the model says, else `impute`. `impute` replaces missing values by their mean in the fit, and values beyond float32
        in rows whose output would exceed it; `reject` raises a ValueError, `skip` leaves the rows out of the result."""
        rows = matrix(x, self.features, self.note.get("categories") or (), self.note.get("dates") or ())
        nulls = nulls or self.note.get("nulls") or "impute"
        if nulls not in NULLS:
            raise ValueError(f"nulls {nulls!r}: use one of {', '.join(NULLS)}")
        if nulls != "impute":
            good = np.abs(rows) < FLOAT32_END
            if nulls == "reject" and not good.all():
                at, k = np.argwhere(~good)[0]
                raise ValueError(f"row {at}, feature {self.features[k]!r}: {rows[at, k]}: fix the row, or use "
                                 "nulls='impute' or nulls='skip'")
            rows = rows[good.all(axis=1)]
        out = np.empty((len(rows), self.dim))
        width = max(len(self.features), *(max(a.shape, default=1) for a in self.arrays.values()))
        step = max(1, CHUNK // width)
        apply = maps.ready(self.map, self.arrays)
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            for at in range(0, len(rows), step):
                part = rows[at : at + step]
                y = apply(self._scaled(part))
                far = ~(np.abs(y) < FLOAT32_END).all(axis=1)
                if far.any() and nulls == "impute":  # perhaps for values beyond float32, which count as missing then
                    y[far] = apply(self._scaled(np.where(np.abs(part[far]) < FLOAT32_END, part[far], np.nan)))
                out[at : at + step] = y
        bad = np.flatnonzero(~(np.abs(out) < FLOAT32_END).all(axis=1))
        if len(bad):
            raise ValueError(f"row {bad[0]} is too far from the rows of the fit: its output exceeds float32; look for a "
                             "feature far outside the range of the fit")
        return out

    def _scaled(self, x: Floats) -> Floats:
        """(x - mean) / scale, missing values at the mean."""
        missing = ~np.isfinite(x)
        if self.unit:
            there = np.where(missing, 0, x)
            largest = np.abs(there).max(axis=1, keepdims=True, initial=0)
            largest[largest == 0] = 1
            # One after the other, as the program sums: rows of the fit have its norm to the last bit, and distance 0 then.
            squares = (there**2).cumsum(axis=1)[:, -1:]
            relative = largest * np.sqrt(((there / largest) ** 2).cumsum(axis=1)[:, -1:])
            norm = np.where((squares > 1e-290) & (squares < 1e300), np.sqrt(squares), relative)
            x = there / np.where(norm == 0, 1, np.minimum(norm, np.finfo(float).max))
        z = np.where(missing, 0, (x - self.mean) / self.scale)
        limit = np.finfo(float).max
        return np.clip(z, -limit, limit)


def _length(data: bytes, at: int) -> int:
    if len(data) < at + 8:
        raise ModelError("truncated; copy or export it again")
    return int(struct.unpack_from("<Q", data, at)[0])


def _section(data: bytes, at: int, name: str) -> tuple[bytes, int]:
    """The bytes of a section, checked, and where the next one begins."""
    end = at + 8 + _length(data, at)
    if len(data) < end + 32:
        raise ModelError("truncated; copy or export it again")
    body = data[at + 8 : end]
    if hashlib.sha256(body).digest() != data[end : end + 32]:
        raise ModelError(f"the {name} does not match its checksum; the file is damaged")
    return body, end + 32


def _header(body: bytes) -> tuple[Any, int]:
    end = 8 + _length(body, 0)
    if len(body) < end:
        raise ModelError("truncated; copy or export it again")
    try:
        return json.loads(body[8:end].decode()), end
    except (ValueError, RecursionError) as e:
        raise ModelError(f"the header is no JSON: {e}") from e


def _build(content: bytes, at: int, head: Any, remarks: Any, version: int) -> Model:
    arrays: dict[str, Floats] = {}
    for a in head["arrays"]:
        shape = tuple(int(n) for n in a["shape"])
        count = 1
        for n in shape:
            count *= n
        if min(shape, default=0) < 0 or at + 8 * count > len(content):
            raise ModelError(f"array {a['name']!r} of shape {shape} is larger than the file")
        # Version 1 of a map geodesic has two arrays mean.
        again = version == 1 and head["map"] == "geodesic" and a["name"] == "mean" and "mean" in arrays
        name = "mean_square" if again else a["name"]
        if name in arrays:
            raise ModelError(f"two arrays have the name {name!r}")
        arrays[name] = np.frombuffer(content, "<f8", count, at).reshape(shape)
        at += 8 * count
        if not np.isfinite(arrays[name]).all():
            raise ModelError(f"{name} holds a number that is not finite")
    if at != len(content):
        raise ModelError(f"{len(content) - at} bytes belong to no array")
    if (version == 2) != (head["map"] == "geodesic" and head["arrays"][6]["name"] == "mean_square"):
        raise ModelError(f"it says version {version}, and its arrays are those of another version")
    mean, scale, eigenvalues = (arrays.pop(name) for name in ("mean", "scale", "eigenvalues"))
    m = len(head["features"])
    if mean.shape != (m,) or scale.shape != (m,) or m == 0 or not (scale > 0).all():
        raise ModelError(f"mean and scale are not those of {m} features")
    try:
        maps.check(head["map"], arrays, m, head["dim"], len(head["classes"]))
    except ValueError as e:
        raise ModelError(str(e)) from e
    return Model(
        digest=hashlib.sha256(content).hexdigest(), method=head["method"], map=head["map"], dim=head["dim"],
        features=tuple(head["features"]), classes=tuple(head["classes"]), rows=head["rows"], unit=head["unit"],
        informative_rank=head["informative_rank"], params=head["params"], mean=mean, scale=scale,
        eigenvalues=eigenvalues, arrays=arrays, note=remarks.get("note", {}), report=remarks.get("report", {}))
