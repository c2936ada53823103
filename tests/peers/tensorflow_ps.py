"""TensorFlow's ParameterServerStrategy (asynchronous) on the seed MLP: examples per second of all workers together.

usage: tensorflow_ps.py BATCH WORKERS SECONDS     starts 1 ps and WORKERS workers as processes on loopback, prints a number
"""
import json
import os
import socket
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def serve(job, index):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    cluster = json.loads(os.environ["PEER_CLUSTER"])
    tf.distribute.Server(tf.train.ClusterSpec(cluster), job_name=job, task_index=index, protocol="grpc").join()


def main():
    batch, workers, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    ports = free_ports(workers + 2)
    cluster = {"ps": [f"localhost:{ports[0]}"], "worker": [f"localhost:{p}" for p in ports[1:1 + workers]],
               "chief": [f"localhost:{ports[-1]}"]}
    os.environ["PEER_CLUSTER"] = json.dumps(cluster)
    tasks = [("ps", 0)] + [("worker", i) for i in range(workers)]
    children = [subprocess.Popen([sys.executable, __file__, "--serve", job, str(i)]) for job, i in tasks]
    try:
        import tensorflow as tf

        os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "chief", "index": 0}})
        strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
        sizes = [600, 512, 128, 128, 1]
        with strategy.scope():
            variables = []
            for i in range(4):
                variables.append(tf.Variable(tf.random.normal((sizes[i], sizes[i + 1]), stddev=0.05)))
                variables.append(tf.Variable(tf.zeros((sizes[i + 1],))))
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

        def dataset():
            x, y = tf.random.uniform((batch, 600)), tf.random.uniform((batch, 1))
            return tf.data.Dataset.from_tensors((x, y)).repeat()

        examples = iter(coordinator.create_per_worker_dataset(dataset))

        @tf.function
        def worker_step(iterator):
            x, y = next(iterator)
            with tf.GradientTape() as tape:
                h = x
                for i in range(4):
                    h = tf.matmul(h, variables[2 * i]) + variables[2 * i + 1]
                    h = tf.nn.relu(h) if i < 3 else h
                loss = tf.reduce_mean(tf.square(h - y))
            for variable, gradient in zip(variables, tape.gradient(loss, variables)):
                variable.assign_sub(1e-4 * gradient)

        def run(n):
            for _ in range(n):
                coordinator.schedule(worker_step, args=(examples,))
            coordinator.join()

        run(10 * workers)
        done, chunk, start = 0, 20 * workers, time.perf_counter()
        while time.perf_counter() - start < seconds:
            run(chunk)
            done += chunk
        print(done * batch / (time.perf_counter() - start), flush=True)
    finally:
        for child in children:
            child.kill()
        for child in children:
            child.wait()
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        main()
