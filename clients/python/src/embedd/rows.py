"""Rows of features as a matrix, from arrays and data frames."""
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def matrix(x: Any, features: Sequence[str], categories: Sequence[str] = (), dates: Sequence[str] = ()) -> Floats:
    """The n x m matrix of x. Arrays have the features in their order. Frames of pandas, polars and pyarrow, and mappings
    of arrays, are searched by name, in any order; the features `pixels[0]`, `pixels[1]` ... may also be one column
    `pixels` of lists. A column of categories gives its features `city=Rome`, 1 where it has the value and NaN where it is
    null; one of dates gives days since 1970."""
    names = _column_names(x)
    if names is None or (names.isdisjoint(features) and names.isdisjoint(categories)
                         and names.isdisjoint(_list_of(f) for f in features)):
        out = np.asarray(x, dtype=np.float64)
        if out.ndim != 2 or out.shape[1] != len(features):
            raise ValueError(f"rows of shape {out.shape}; the model needs (rows, {len(features)})")
        return out
    lists: dict[str, Floats] = {}
    columns = []
    texts: dict[str, list[str | None]] = {}
    for name in features:
        category = next((c for c in categories if name.startswith(c + "=")), None)
        if category is not None and category in names:
            if category not in texts:
                known = [f[len(category) + 1 :] for f in features if f.startswith(category + "=")]
                texts[category] = [_known(_text(v, category), known) for v in _values(x[category])]
            value = name[len(category) + 1 :]
            columns.append(np.array([np.nan if t is None else float(t == value) for t in texts[category]]))
            continue
        if name in dates and name in names:
            columns.append(_days(x[name], name))
            continue
        if name in names:
            columns.append(_numbers(x[name], name))
            continue
        base = _list_of(name)
        if base not in names:
            raise ValueError(f"no column {name!r}; the model needs {len(features)} features: {', '.join(features[:10])}"
                             + (" ..." if len(features) > 10 else ""))
        if base not in lists:
            lists[base] = _numbers(x[base], base)
        at = int(name[len(base) + 1 : -1])
        if lists[base].ndim != 2 or at >= lists[base].shape[1]:
            raise ValueError(f"column {base!r} has no element {at}; the model needs {name!r}")
        columns.append(lists[base][:, at])
    return np.stack(columns, axis=1)


def _values(column: Any) -> list[Any]:
    """The values of a column, None where it has none."""
    values: Any = column.to_pylist() if hasattr(column, "to_pylist") else column
    return [None if _is_null(v) else v for v in values]


def _is_null(value: Any) -> bool:
    try:
        return value is None or bool(value != value)  # NaN and NaT differ from themselves
    except TypeError:
        return True  # it is not known whether the NA of pandas does


def _text(value: Any, name: str) -> str | None:
    """A category as the program writes it; text that is empty is none only in files of CSV."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    raise ValueError(f"column {name!r} is a category and holds {value!r}: give text, integers or booleans")


BOOLEANS = {word: word.lower() for word in ("true", "True", "TRUE", "false", "False", "FALSE")}


def _known(text: str | None, known: list[str]) -> str | None:
    """The value of a fit that a text is: of booleans also in another spelling."""
    if text is None or text in known or text not in BOOLEANS:
        return text
    boolean = BOOLEANS[text]
    return boolean if boolean in known else next((v for v in known if BOOLEANS.get(v) == boolean), text)


# Dates as text, in the forms that the program takes.
DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)"
                  r"(?:(?:T| +)(\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII)
# White space around them, as the program has it: str.strip() also removes the separators of ASCII, \x1c to \x1f.
SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _day(text: str) -> float:
    found = DATE.fullmatch(text.strip(SPACE))
    if not found:
        raise ValueError(text)
    year, month, day, hour, minute, second = (int(n or 0) for n in found.groups()[:6])
    # datetime has no year 0, which is as long as 400 and 146,097 days before.
    since = datetime(year or 400, month, day, hour, minute, second, tzinfo=timezone.utc) - EPOCH
    seconds = float((since.days - (0 if year else 146097)) * 86400 + since.seconds)
    if found[8] and found[8] != "Z":
        hours, minutes = int(found[8][1:3]), int(found[8][4:])
        if hours > 24 or minutes > 60:
            raise ValueError(text)
        offset = 3600 * hours + 60 * minutes
        seconds -= offset if found[8][0] == "+" else -offset
    return (seconds + int((found[7] or "0")[:9].ljust(9, "0")) / 1e9) / 86400


def _days(column: Any, name: str) -> Floats:
    """Dates as days since 1970 in UTC, which is also the zone of those without one."""
    out = []
    for value in _values(column):
        if value is None:
            out.append(np.nan)
            continue
        try:
            if isinstance(value, np.datetime64):
                out.append(float((value - np.datetime64(0, "D")) / np.timedelta64(1, "D")))
                continue
            if isinstance(value, str):
                out.append(_day(value))
                continue
            if not isinstance(value, datetime):
                value = datetime(value.year, value.month, value.day)
            if value.tzinfo is None:
                value = value.replace(tzinfo=timezone.utc)
            out.append((value - EPOCH) / timedelta(days=1))
        except (ValueError, AttributeError) as e:
            raise ValueError(f"column {name!r} is a date and holds {value!r}: give dates, or text as 2024-05-01 or "
                             "2024-05-01T12:00:00Z") from e
    return np.array(out, dtype=np.float64)


def _column_names(x: Any) -> set[str] | None:
    """The names of the columns of a frame; None for an array."""
    if isinstance(x, Mapping):
        return {str(name) for name in x}
    names = getattr(x, "column_names", getattr(x, "columns", None))
    return None if names is None else {str(name) for name in names}


def _list_of(feature: str) -> str:
    """The list column that has a feature as its element, or "" if the name is not that of an element."""
    found = re.fullmatch(r"(.*)\[\d+\]", feature, re.DOTALL)
    return found[1] if found else ""


def _numbers(column: Any, name: str) -> Floats:
    """A column of numbers, or of lists of one length, as float64. Nulls are NaN."""
    values: Any = column.to_pylist() if hasattr(column, "to_pylist") else column
    try:
        array = np.asarray(values)
        if array.dtype == object:
            array = np.asarray([np.nan if v is None else v for v in array])
        return array.astype(np.float64)
    except (TypeError, ValueError) as e:
        raise ValueError(f"column {name!r} holds neither numbers nor lists of one length: {e}") from e
