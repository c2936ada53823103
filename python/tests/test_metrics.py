"""Metrics by name: what a batch reports, and the histogram of an AUC."""

import numpy as np
import pytest
from fake_worker import play

import shoal
from shoal import _metrics
from shoal._metrics import BINS, Histogram, add, bins_of, histogram_of


def exact_area(scores, labels):
    """The share of pairs whose positive example has the higher score; equal scores count one half."""
    order = np.argsort(scores, kind="stable")
    values, first, counts = np.unique(scores[order], return_index=True, return_counts=True)
    ranks = np.repeat(first + (counts + 1) / 2, counts)
    positives = labels[order] == 1
    n = positives.sum()
    return (ranks[positives].sum() - n * (n + 1) / 2) / (n * (len(labels) - n))


def area(histogram):
    p, n = histogram.positives.astype(float), histogram.negatives.astype(float)
    return (p * (np.cumsum(n) - n / 2)).sum() / (p.sum() * n.sum())


def test_bins_are_those_of_the_documentation():
    scores = np.array([0, 2**-36, 2**-24, 0.25, 0.375, np.nextafter(np.float32(0.5), 0), 0.5, 0.75, 1], np.float32)
    assert bins_of(scores).tolist() == [0, 1, 4096, 23 * 4096, 23 * 4096 + 2048, 98303, 98304, 102399, BINS - 1]
    rising = np.sort(np.random.default_rng(1).random(100_000).astype(np.float32) ** 8)
    for scores in (rising, 1 - rising[::-1]):
        bins = bins_of(scores)
        assert (np.diff(bins) >= 0).all() and bins.min() >= 0 and bins.max() < BINS


@pytest.mark.parametrize("rate", [0.5, 0.02])
@pytest.mark.parametrize("middle", [0.0, -6.0, 9.0])
def test_the_area_is_exact_to_a_ten_thousandth(rate, middle):
    random = np.random.default_rng(3)
    labels = (random.random(50_000) < rate).astype(int)
    scores = (1 / (1 + np.exp(-random.normal(middle + labels, 0.65)))).astype(np.float32)
    parts = [histogram_of("auc", (scores[i::7], labels[i::7])) for i in range(7)]
    whole = histogram_of("auc", (scores, labels))
    total = parts[0]
    for part in parts[1:]:
        total = add(total, part)
    for of_parts, at_once in zip(vars(total).values(), vars(whole).values()):
        np.testing.assert_array_equal(of_parts, at_once)
    assert abs(area(whole) - exact_area(scores, labels)) < 1e-4


def test_a_few_scores_are_exact():
    assert area(histogram_of("auc", ([0.1, 0.4, 0.35, 0.8], [False, False, True, True]))) == 0.75
    assert histogram_of("auc", ([], [])).bins.size == 0


def report(worker):
    worker.declare(
        [shoal.Variable("w")], examples=4, optimizer=shoal.SGD(0.1), metrics=["accuracy", "f1", "auc", shoal.AUC("ctr")]
    )
    for work in worker:
        work.done(
            1.0,
            metrics={
                "f1": (0.5, 2),
                "auc": (np.array([0.25, 0.75, 0.25]), [0, 1, 1]),
                "ctr": (np.full((3, 1), 0.5), np.zeros((3, 1), bool)),
            },
        )


def test_kinds_and_values_reach_the_worker():
    def scenario(fake):
        values = fake.handshake()
        assert fake.kinds == {"accuracy": 1, "f1": 1, "auc": 2, "ctr": 2}
        result = fake.train(values, [0, 1, 2])
        assert result.metrics["accuracy"] == (0, 0)
        assert result.metrics["f1"] == (0.5, 2)
        assert result.metrics["auc"] == [(23 * 4096, 1, 1), (102399, 1, 0)]
        assert result.metrics["ctr"] == [(98304, 0, 3)]
        fake.finish()

    play(report, scenario)


def test_an_older_worker_gets_means_only():
    def program(worker):
        worker.declare([shoal.Variable("w")], examples=4, optimizer=shoal.SGD(0.1), metrics=["f1"])
        for work in worker:
            work.done(1.0, metrics={"f1": [1, 0, 1]})

    def scenario(fake):
        result = fake.train(fake.handshake(version=1), [0, 1, 2])
        assert result.metrics == {"f1": (2, 3)}
        fake.finish()

    play(program, scenario)

    def refused(fake):
        fake.welcome(version=1)
        with pytest.raises(Exception, match="has no AUC"):
            fake.declaration()

    with pytest.raises(shoal.ProgramError, match="has no AUC"):
        play(report, refused)


def test_metrics_of_a_loss_that_is_not_finite_are_dropped():
    def program(worker):
        worker.declare([shoal.Variable("w")], examples=4, optimizer=shoal.SGD(0.1), metrics=["f1", "auc"])
        for work in worker:
            work.done(np.nan, metrics={"f1": np.nan, "auc": ([np.nan, 0.5], [0, 1])})

    def scenario(fake):
        result = fake.train(fake.handshake(), [0, 1])
        assert result.metrics == {"f1": (0, 0), "auc": []}
        fake.finish()

    play(program, scenario)


def test_a_metric_that_is_not_finite_is_reported_as_such():
    def program(worker):
        names = ["f1", "accuracy", "weighted", "auc"]
        worker.declare([shoal.Variable("w")], examples=4, optimizer=shoal.SGD(0.1), metrics=names)
        for work in worker:
            scores = [np.nan, 0.25, np.inf], [0, 1, 1]
            infinite = (1.0, np.inf)
            work.done(1.0, metrics={"f1": [1, np.nan], "accuracy": np.inf, "weighted": infinite, "auc": scores})

    def scenario(fake):
        metrics = fake.train(fake.handshake(), [0, 1]).metrics
        assert [np.isnan(metrics[name][0]) for name in ("f1", "accuracy", "weighted")] == [True] * 3
        assert metrics["auc"] == [(22 * 4096 + 4096, 1, 0), (196608, 1, 1)]
        fake.finish()

    play(program, scenario)


def test_too_many_scores_in_a_batch_are_refused():
    many = Histogram(*(np.ones(_metrics.MAX_BINS + 1, np.uint32) for _ in range(3)))
    with pytest.raises(shoal.ProgramError, match="65537 different scores"):
        _metrics.checked({"auc": many}, 1.0)
    assert _metrics.checked({"auc": many}, np.inf) == {}
