"""The DLRM of deploy/runs/clicks_dlrm.textproto with TensorFlow's ParameterServerStrategy (asynchronous), 1 ps.

usage: tensorflow_clicks.py EXAMPLES BATCH WORKERS SECONDS    starts 1 ps and WORKERS workers of one thread as processes on
                                                              loopback, prints the examples per second of all workers together
EXAMPLES is a file of tests/benchmark/clicks_examples. Tables are variables of the ps, whose rows a worker gathers and updates with
ResourceSparseApplyAdagradV2, as Keras 2 did; the dense variables use ResourceApplyAdagradV2.
"""
import sys

import clicks_data
from tensorflow_cluster import measure


class Dlrm:
    """Variables and their accumulators; made in the scope of the strategy."""

    def __init__(self, tf):
        self.tf = tf
        low, high = clicks_data.setting("uniform", "low"), clicks_data.setting("uniform", "high")
        self.tables = [tf.Variable(tf.random.uniform((rows, clicks_data.DIM), low, high)) for rows in clicks_data.rows()]
        self.dense = {}
        for name, sizes in (("bottom", clicks_data.BOTTOM), ("top", clicks_data.TOP)):
            for i, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
                radius = (6 / (inputs + outputs)) ** 0.5
                self.dense[f"{name}{i}w"] = tf.Variable(tf.random.uniform((inputs, outputs), -radius, radius))
                self.dense[f"{name}{i}b"] = tf.Variable(tf.zeros((outputs,)))
        first = clicks_data.setting("adagrad", "initial_accumulator")
        self.accumulators = [tf.Variable(tf.fill(v.shape, first)) for v in [*self.tables, *self.dense.values()]]

    def layers(self, name, x, count, last):
        for i in range(count):
            x = self.tf.matmul(x, self.dense[f"{name}{i}w"]) + self.dense[f"{name}{i}b"]
            x = self.tf.nn.relu(x) if last or i + 1 < count else x
        return x

    def step(self, numbers, ids, clicks):
        tf = self.tf
        rows = [tf.unique(ids[:, c]) for c in range(clicks_data.COLUMNS)]
        values = [tf.gather(table, keys) for table, (keys, _) in zip(self.tables, rows)]
        with tf.GradientTape() as tape:
            tape.watch(values)
            x = self.layers("bottom", numbers, len(clicks_data.BOTTOM) - 1, True)
            vectors = tf.stack([x] + [tf.gather(value, index) for value, (_, index) in zip(values, rows)], 1)
            products = tf.matmul(vectors, vectors, transpose_b=True)
            below = [i * (clicks_data.COLUMNS + 1) + j for i in range(clicks_data.COLUMNS + 1) for j in range(i)]
            flat = tf.gather(tf.reshape(products, (-1, (clicks_data.COLUMNS + 1) ** 2)), below, axis=1)
            logits = self.layers("top", tf.concat([x, flat], 1), len(clicks_data.TOP) - 1, False)[:, 0]
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(clicks, logits))
        gradients = tape.gradient(loss, values + list(self.dense.values()))
        rate = clicks_data.setting("adagrad", "learning_rate")
        updates = zip([*self.tables, *self.dense.values()], self.accumulators, gradients)
        for i, (variable, accumulator, gradient) in enumerate(updates):
            if i < clicks_data.COLUMNS:
                gradient = tf.convert_to_tensor(gradient)
                tf.raw_ops.ResourceSparseApplyAdagradV2(var=variable.handle, accum=accumulator.handle, lr=rate, epsilon=1e-10,
                                                        grad=gradient, indices=rows[i][0])
            else:
                tf.raw_ops.ResourceApplyAdagradV2(var=variable.handle, accum=accumulator.handle, lr=rate, epsilon=1e-10,
                                                  grad=gradient)


def main():
    path, batch, workers, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])

    def make_training(tf):
        size = clicks_data.EXAMPLE.itemsize

        def split(records):
            words = tf.reshape(tf.io.decode_raw(records, tf.int32), (batch, size // 4))
            numbers = tf.bitcast(words[:, :clicks_data.NUMBERS], tf.float32)
            return (numbers, words[:, clicks_data.NUMBERS:-1], tf.cast(words[:, -1], tf.float32))

        def dataset():
            return tf.data.FixedLengthRecordDataset(path, size).batch(batch, drop_remainder=True).map(split).repeat().prefetch(2)

        return dataset, Dlrm(tf).step

    measure(make_training, batch, workers, seconds, steps_per_worker=10)


if __name__ == "__main__":
    main()
