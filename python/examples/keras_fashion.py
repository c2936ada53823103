"""An image classifier in Keras 3 on Fashion-MNIST (Debian's package dataset-fashion-mnist); JAX computes.

pip install keras jax
shoal train --program=python/examples/keras_fashion.py --num_ps_tasks=2 --num_replicas=2 -- --epochs=2
"""

import argparse
import gzip
import os
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"  # Its models are functions of their variables, which is what Shoal needs.

import jax
import keras
import numpy as np
from keras import layers

import shoal


def read(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    images = gzip.decompress((folder / f"{split}-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((folder / f"{split}-labels-idx1-ubyte.gz").read_bytes())
    pixels = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28, 1)
    return pixels.astype(np.float32) / 255, np.frombuffer(labels, np.uint8, offset=8).astype(np.int32)


def network() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(16, 3, padding="same"),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.25),
            layers.Dense(10),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains an image classifier on Fashion-MNIST with Keras.")
    parser.add_argument("--data", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    if not args.data.is_dir():
        parser.error(f"--data: there is no folder {args.data}; name the one with the four .gz files of Fashion-MNIST")

    worker = shoal.Worker()
    keras.utils.set_random_seed(worker.seed)
    data = {"train": read(args.data, "train"), "evaluate": read(args.data, "t10k")}
    model = network()
    # Batch norm's moving statistics are variables, too; the state of dropout's generator follows from the batch.
    statistics = [v for v in model.non_trainable_variables if v.dtype == "float32"]

    def loss_of(trainable, others, images, labels, training):
        logits, others = model.stateless_call(trainable, others, images, training=training)
        losses = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        return losses.mean(), (logits.argmax(1) == labels, others)

    gradients_of = jax.jit(jax.value_and_grad(loss_of, has_aux=True), static_argnums=4)
    evaluate = jax.jit(loss_of, static_argnums=4)

    worker.declare(
        [shoal.Variable(v.path, initial=np.asarray(v.value)) for v in model.trainable_variables]
        + [shoal.Variable(v.path, initial=np.asarray(v.value), kind="assign") for v in statistics],
        examples=len(data["train"][0]),
        test_examples=len(data["evaluate"][0]),
        optimizer=shoal.Adam(1e-3, schedule=shoal.Cosine()),
        batch_size=64,
        epochs=args.epochs,
        metrics=["accuracy"],
    )
    for work in worker:
        images, labels = (array[work.indices] for array in data[work.kind])
        generator_state = np.array([work.seed % 2**32, 0], np.uint32)
        trainable = [np.array(work.parameters[v.path]) for v in model.trainable_variables]
        others = [
            np.array(work.parameters[v.path]) if v.dtype == "float32" else generator_state
            for v in model.non_trainable_variables
        ]
        if work.is_training:
            (loss, (correct, others)), gradients = gradients_of(trainable, others, images, labels, True)
            for variable, gradient in zip(model.trainable_variables, gradients):
                work.gradients[variable.path] = gradient
            for variable, value in zip(model.non_trainable_variables, others):
                if variable.dtype == "float32":
                    work.gradients[variable.path] = value
        else:
            loss, (correct, _) = evaluate(trainable, others, images, labels, False)
        work.done(float(loss) * len(labels), metrics={"accuracy": np.asarray(correct)})


if __name__ == "__main__":
    main()
