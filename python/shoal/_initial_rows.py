"""The values with which rows of tables begin, as the parameter servers compute them: docs/checkpoint_format.md.

The generator is that of base/random.h, with the same operations in the same order, so the bytes are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal._rows import Array, Keys

_Words = npt.NDArray[np.uint64]  # Numbers of 32 or 64 bits.
_Doubles = npt.NDArray[np.float64]

_MASK = (1 << 64) - 1
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
# The sequences of base/random.cc.
_UNIFORM, _NORMAL, _DERIVE, _TRUNCATED = 2, 3, 4, 5


def initial_rows(initializer: Mapping[str, Any], table: str, keys: Keys, dim: int) -> Array:
    """Returns the rows of keys that have none in a run. `initializer` is that of the table in export.json."""
    distribution = initializer["distribution"]
    shape = len(keys), dim
    if distribution == "constant":
        return np.full(shape, initializer["value"], np.float32)
    of_rows = _derive(np.uint64(initializer["seed"]), _combine(_fingerprint(table.encode()), keys))
    if distribution == "uniform":
        offset, factor = initializer["low"], initializer["high"] - initializer["low"]
        unit = (_words(of_rows, _UNIFORM, dim) >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)
    elif distribution in ("normal", "truncated_normal"):
        offset, factor = initializer["mean"], initializer["stddev"]
        is_truncated = distribution == "truncated_normal"
        unit = _normal(_words(of_rows, _TRUNCATED if is_truncated else _NORMAL, dim))
        if is_truncated:
            _draw_again(of_rows, unit)
    else:
        raise ValueError(f"the initializer of table {table} is {distribution!r}, which this version does not know")
    values: Array = np.float32(offset) + np.float32(factor) * unit[:, :dim]
    return values


def _draw_again(of_rows: _Words, unit: Array) -> None:
    """Replaces the numbers beyond two standard deviations."""
    attempt = 0
    while (outside := np.abs(unit) > np.float32(2)).any():
        attempt += 1
        rows, columns = np.nonzero(outside)
        words = _philox(_derive(of_rows[rows], np.uint64(attempt)), _TRUNCATED, columns.astype(np.uint64))
        unit[rows, columns] = _normal(np.stack(words, -1))[:, 0]


def _words(of_rows: _Words, sequence: int, dim: int) -> _Words:
    """Returns the numbers of each row, four for each block."""
    blocks = np.arange((dim + 3) // 4, dtype=np.uint64)
    return np.stack(_philox(of_rows[:, None], sequence, blocks[None]), -1).reshape(len(of_rows), 4 * len(blocks))


def _philox(key: Any, high: int, low: Any) -> tuple[_Words, _Words, _Words, _Words]:
    key, low = np.broadcast_arrays(np.atleast_1d(key), np.atleast_1d(low))
    k0, k1 = key & _LOW, key >> _HALF
    c0, c1 = low & _LOW, low >> _HALF
    c2, c3 = np.full_like(c0, high), np.zeros_like(c0)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ k0, p1 & _LOW, (p0 >> _HALF) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & _LOW, (k1 + np.uint64(0xBB67AE85)) & _LOW
    return c0, c1, c2, c3


def _derive(key: Any, purpose: Any) -> _Words:
    low, high, _, _ = _philox(key, _DERIVE, purpose)
    derived: _Words = low | high << _HALF
    return derived


def _normal(words: _Words) -> Array:
    """Returns a number for each word; two words make two (Box-Muller)."""
    unit = 1.0 / 4294967296.0
    radius = np.sqrt(-2.0 * _log((words[:, 0::2].astype(np.float64) + 1.0) * unit))
    sine, cosine = _sine_and_cosine(words[:, 1::2].astype(np.float64) * unit)
    return np.stack((radius * cosine, radius * sine), -1).reshape(words.shape).astype(np.float32)


def _log(x: _Doubles) -> _Doubles:
    bits = x.view(np.uint64)
    exponent = (bits >> np.uint64(52)).astype(np.int64) - 1023
    mantissa = ((bits & np.uint64(0x000FFFFFFFFFFFFF)) | np.uint64(0x3FF0000000000000)).view(np.float64)
    is_large = mantissa > 1.41421356237309504880
    mantissa = np.where(is_large, mantissa * 0.5, mantissa)
    exponent = exponent + is_large
    t = (mantissa - 1.0) / (mantissa + 1.0)
    t2 = t * t
    total = np.zeros_like(t)
    for k in range(19, 0, -2):
        total = total * t2 + 1.0 / k
    result: _Doubles = 2.0 * t * total + exponent * 0.693147180559945309417
    return result


def _sine_and_cosine(turn: _Doubles) -> tuple[_Doubles, _Doubles]:
    quarters = turn * 4.0
    quadrant = (quarters + 0.5).astype(np.int64)
    x = (quarters - quadrant) * 1.57079632679489661923
    x2 = x * x
    sine, cosine = np.ones_like(x), np.ones_like(x)
    for k in range(7, 0, -1):
        sine = 1.0 - sine * x2 / (2 * k * (2 * k + 1))
        cosine = 1.0 - cosine * x2 / (2 * k * (2 * k - 1))
    sine = sine * x
    quadrant = quadrant & 3
    return (
        np.choose(quadrant, (sine, cosine, -sine, -cosine)),
        np.choose(quadrant, (cosine, -sine, -cosine, sine)),
    )


def _combine(first: int, second: Keys) -> _Words:
    """CombineFingerprints of base/hash.h."""
    mixed = int(_mix(np.array([(first + 0x9E3779B97F4A7C15) & _MASK], np.uint64))[0])
    combined: _Words = np.uint64(mixed * 3 & _MASK) + _mix(second ^ np.uint64(0xD1B54A32D192ED03))
    return combined


def _mix(x: _Words) -> _Words:
    x = x ^ (x >> np.uint64(30))
    x = x * np.uint64(0xBF58476D1CE4E5B9)
    x = x ^ (x >> np.uint64(27))
    x = x * np.uint64(0x94D049BB133111EB)
    mixed: _Words = x ^ (x >> np.uint64(31))
    return mixed


def _fingerprint(text: bytes) -> int:
    """Fingerprint64 of base/hash.h."""
    multiplier = 0xC6A4A7935BD1E995
    result = len(text) * multiplier & _MASK
    whole = len(text) // 8 * 8
    for at in range(0, whole, 8):
        word = int.from_bytes(text[at : at + 8], "little") * multiplier & _MASK
        word = (word ^ word >> 47) * multiplier & _MASK
        result = (result ^ word) * multiplier & _MASK
    if whole < len(text):
        result = (result ^ int.from_bytes(text[whole:], "little")) * multiplier & _MASK
    result = (result ^ result >> 47) * multiplier & _MASK
    return result ^ result >> 47
