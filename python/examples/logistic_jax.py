"""A network in JAX, 40 lines: shoal train --program=python/examples/logistic_jax.py (needs `pip install jax`)."""

import jax
import jax.numpy as jnp
import numpy as np

import shoal

worker = shoal.Worker()
random = np.random.default_rng(0)
x = random.normal(size=(12000, 16)).astype(np.float32)
y = (x[:, 0] * x[:, 1] > 0).astype(np.int32)  # Do two of the inputs have the same sign?
train, test = (x[:10000], y[:10000]), (x[10000:], y[10000:])


def loss_of(p, xs, ys):
    logits = jnp.tanh(xs @ p["hidden/w"] + p["hidden/b"]) @ p["out/w"] + p["out/b"]
    losses = -jnp.take_along_axis(jax.nn.log_softmax(logits), ys[:, None], 1)[:, 0]
    return losses.mean(), logits.argmax(1) == ys


evaluate = jax.jit(loss_of)
gradient_of = jax.jit(jax.value_and_grad(loss_of, has_aux=True))
variables = [
    shoal.Variable("hidden/w", initial=random.normal(size=(16, 32)) / 4),
    shoal.Variable("hidden/b", initial=np.zeros(32)),
    shoal.Variable("out/w", initial=random.normal(size=(32, 2)) / 6),
    shoal.Variable("out/b", initial=np.zeros(2)),
]
settings = {"optimizer": shoal.Adam(0.01), "batch_size": 50, "epochs": 4, "metrics": ["accuracy"]}
worker.declare(variables, examples=10000, test_examples=2000, **settings)
for work in worker:
    data, labels = train if work.is_training else test
    batch = data[work.indices], labels[work.indices]
    parameters = {name: np.array(value) for name, value in work.parameters.items()}
    if work.is_training:
        (loss, correct), gradients = gradient_of(parameters, *batch)
        for name, gradient in gradients.items():
            work.gradients[name] = gradient
    else:
        loss, correct = evaluate(parameters, *batch)
    work.done(float(loss) * len(work.indices), metrics={"accuracy": np.asarray(correct)})
