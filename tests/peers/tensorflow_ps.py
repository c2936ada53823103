"""TensorFlow's ParameterServerStrategy (asynchronous) on the seed MLP: examples per second of all workers together.

usage: tensorflow_ps.py BATCH WORKERS SECONDS     starts 1 ps and WORKERS workers as processes on loopback, prints a number
"""
import sys

from tensorflow_cluster import measure

SIZES = [600, 512, 128, 128, 1]


def main():
    batch, workers, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])

    def make_training(tf):
        variables = []
        for inputs, outputs in zip(SIZES, SIZES[1:]):
            variables.append(tf.Variable(tf.random.normal((inputs, outputs), stddev=0.05)))
            variables.append(tf.Variable(tf.zeros((outputs,))))

        def dataset():
            x, y = tf.random.uniform((batch, SIZES[0])), tf.random.uniform((batch, 1))
            return tf.data.Dataset.from_tensors((x, y)).repeat()

        def step(x, y):
            with tf.GradientTape() as tape:
                h = x
                for i in range(4):
                    h = tf.matmul(h, variables[2 * i]) + variables[2 * i + 1]
                    h = tf.nn.relu(h) if i < 3 else h
                loss = tf.reduce_mean(tf.square(h - y))
            for variable, gradient in zip(variables, tape.gradient(loss, variables)):
                variable.assign_sub(1e-4 * gradient)

        return dataset, step

    measure(make_training, batch, workers, seconds, steps_per_worker=20)


if __name__ == "__main__":
    main()
