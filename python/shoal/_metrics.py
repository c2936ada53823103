"""Metrics beside the loss: their names and kinds, and what a batch contributes to them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from shoal import _protocol
from shoal.errors import ProgramError

MAX_METRICS = 16
MAX_BINS = 65536
BINS_PER_RANGE = 4096
RANGES = 24
BINS = 2 * RANGES * BINS_PER_RANGE
BIN_NOT_FINITE = BINS  # Of scores that are NaN or infinite: such an AUC is recorded as null.
_NAME = re.compile(r"[A-Za-z0-9_./-]+")
_FIELDS = ("step", "epoch", "loss", "examples", "examples_per_second", "learning_rate", "staleness")


@dataclass(frozen=True)
class AUC:
    """A metric with this name that is the area under the curve of a binary classifier.

    A batch reports (scores, labels): scores between 0 and 1, and labels that are 0 or 1 (or booleans), one of each per
    example. The metric "auc" is one without being declared as such.
    """

    name: str = "auc"


Metric = Union[str, AUC]


@dataclass(frozen=True)
class Histogram:
    """The numbers of positive and of negative examples in each bin of scores that has any, in rising order."""

    bins: npt.NDArray[np.uint32]
    positives: npt.NDArray[np.uint32]
    negatives: npt.NDArray[np.uint32]


EMPTY = Histogram(*(np.zeros(0, np.uint32) for _ in range(3)))
Value = Union[tuple[float, float], Histogram]


def kinds_of(metrics: Sequence[Metric]) -> dict[str, int]:
    """Checks the metrics of declare() and returns the kind of each name."""
    if isinstance(metrics, (str, AUC)):
        raise ProgramError(f"metrics is {metrics!r}; it must be a list of names, such as [{metrics!r}]")
    kinds: dict[str, int] = {}
    for metric in metrics:
        name = metric.name if isinstance(metric, AUC) else metric
        if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > 64:
            raise ProgramError(f"the metric name {name!r} must have 1 to 64 of A-Z a-z 0-9 _ . / -")
        if name in _FIELDS:
            raise ProgramError(f"the metric name {name!r} is that of a field of metrics.jsonl; rename the metric")
        if name.startswith("eval_"):
            raise ProgramError(f"the metric name {name!r} must not begin with eval_; every metric is evaluated too")
        if name in kinds:
            raise ProgramError(f"metrics has {name!r} twice; drop one of them")
        is_auc = isinstance(metric, AUC) or name == "auc"
        if is_auc and name == "accuracy":
            raise ProgramError("the metric 'accuracy' is a mean; give the AUC another name")
        kinds[name] = _protocol.AUC if is_auc else _protocol.MEAN
    if len(kinds) > MAX_METRICS:
        raise ProgramError(f"there are {len(kinds)} metrics; at most {MAX_METRICS} are possible: leave some out")
    return kinds


def value_of(kinds: Mapping[str, int], name: str, value: Any, examples: int) -> Value:
    """Returns the contribution to the metric of one batch of so many examples, or of a part of it."""
    if name not in kinds:
        known = ", ".join(repr(metric) for metric in kinds)
        raise ProgramError(f"the metric {name!r} was not declared; metrics=[{known or '…'}] needs its name")
    if kinds[name] == _protocol.AUC:
        return value if isinstance(value, Histogram) else histogram_of(name, value)
    return total_of(name, value, examples)


def total_of(name: str, value: Any, examples: int) -> tuple[float, float]:
    """The sum and the weight of a mean over so many examples. If they are not finite, the run records null."""
    try:
        if isinstance(value, tuple):
            total, weight = (float(number) for number in value)
        else:
            array = np.asarray(value)
            if array.ndim == 0:
                total, weight = float(array) * examples, float(examples)
            else:
                total, weight = float(array.sum(dtype=np.float64)), float(array.size)
    except (TypeError, ValueError):
        raise ProgramError(f"the metric {name!r} is {value!r}; it must be numbers, or (sum, weight)") from None
    if not (math.isfinite(total) and math.isfinite(weight)):
        return math.nan, 1.0
    is_accuracy = name == "accuracy"
    if weight < 0 or (weight == 0 and total != 0) or (is_accuracy and (total < 0 or total > weight)):
        raise ProgramError(
            f"the metric {name!r} is {total:g} of {weight:g}, which is not possible; where there is nothing to "
            "measure, report (0, 0)"
        )
    return total, weight


def bins_of(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """The bin of each score: docs/compute_program.md, "AUC"."""
    exact = scores.astype(np.float64)
    low = np.minimum(exact, 1 - exact)  # These are in [0, 1/2].
    mantissa, exponent = np.frexp(low)
    place = np.floor((2 * mantissa - 1) * BINS_PER_RANGE)
    bins = (RANGES + exponent) * BINS_PER_RANGE + place
    bins = np.where(low < 0.5**RANGES, np.floor(np.ldexp(low, RANGES) * BINS_PER_RANGE), bins)
    bins = np.where(low == 0.5, RANGES * BINS_PER_RANGE - 1, bins).astype(np.int64)
    return np.where(exact < 0.5, bins, BINS - 1 - bins)


def histogram_of(name: str, value: Any) -> Histogram:
    """The histogram of (scores, labels)."""
    remedy = f"report {name}=(scores, labels), with one score between 0 and 1 and one label, 0 or 1, per example"
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ProgramError(f"the metric {name!r} is an AUC, but its value is a {type(value).__name__}; {remedy}")
    try:
        scores = np.asarray(value[0], np.float32).ravel()
        labels = np.asarray(value[1]).ravel()
    except (TypeError, ValueError):
        raise ProgramError(f"the metric {name!r} has scores or labels that are not numbers; {remedy}") from None
    if scores.shape != labels.shape:
        raise ProgramError(f"the metric {name!r} has {scores.size} scores and {labels.size} labels; {remedy}")
    if not np.isin(labels, (0, 1)).all():
        raise ProgramError(f"the metric {name!r} has labels other than 0 and 1; {remedy}")
    is_number = np.isfinite(scores)
    if ((scores[is_number] < 0) | (scores[is_number] > 1)).any():
        raise ProgramError(
            f"the metric {name!r} has scores below 0 or above 1; apply a sigmoid to logits, or softmax to two of them"
        )
    is_positive = labels.astype(bool)
    every = np.where(is_number, bins_of(np.where(is_number, scores, 0)), BIN_NOT_FINITE)
    bins, which = np.unique(every, return_inverse=True)
    counts = [np.bincount(which[chosen], minlength=len(bins)) for chosen in (is_positive, ~is_positive)]
    return Histogram(bins.astype(np.uint32), counts[0].astype(np.uint32), counts[1].astype(np.uint32))


def add(first: Value, second: Value) -> Value:
    """The value of two parts of a batch together."""
    if isinstance(first, tuple) or isinstance(second, tuple):
        assert isinstance(first, tuple)
        assert isinstance(second, tuple)
        return first[0] + second[0], first[1] + second[1]
    bins, which = np.unique(np.concatenate([first.bins, second.bins]), return_inverse=True)
    counts = [
        np.bincount(which, np.concatenate(both), len(bins)).astype(np.uint32)
        for both in ((first.positives, second.positives), (first.negatives, second.negatives))
    ]
    return Histogram(bins.astype(np.uint32), *counts)


def checked(values: Mapping[str, Value], loss_sum: float) -> dict[str, Value]:
    """The values of a whole batch. Without a finite loss the batch is skipped, and they mean nothing."""
    if not math.isfinite(loss_sum):
        return {}
    entries = sum(len(value.bins) for value in values.values() if isinstance(value, Histogram))
    if entries > MAX_BINS:
        raise ProgramError(f"a batch has {entries} different scores; an AUC needs batches with at most {MAX_BINS}")
    return dict(values)
