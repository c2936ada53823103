"""Logistic regression in 30 lines of NumPy: shoal train --program=python/examples/linear_numpy.py"""

import numpy as np

import shoal

worker = shoal.Worker()
random = np.random.default_rng(0)
x = random.normal(size=(10000, 20)).astype(np.float32)
y = (x @ random.normal(size=20) + random.normal(size=10000) > 0).astype(np.float32)
train, test = slice(0, 9000), slice(9000, None)

worker.declare(
    [shoal.Variable("w", initial=np.zeros(20)), shoal.Variable("b", initial=0.0)],
    examples=9000,
    test_examples=1000,
    optimizer=shoal.Momentum(0.1),
    batch_size=100,
    epochs=3,
    metrics=["accuracy"],
)
for work in worker:
    part = train if work.is_training else test
    xs, ys = x[part][work.indices], y[part][work.indices]
    score = xs @ work.parameters["w"] + work.parameters["b"]
    probability = 1 / (1 + np.exp(-score))
    loss = np.maximum(score, 0) - score * ys + np.log1p(np.exp(-np.abs(score)))
    if work.is_training:
        work.gradients["w"] = xs.T @ (probability - ys) / len(ys)
        work.gradients["b"] = np.mean(probability - ys)
    work.done(loss.sum(), metrics={"accuracy": (score > 0) == (ys > 0.5)})
