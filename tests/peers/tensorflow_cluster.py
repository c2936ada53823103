"""TensorFlow's ParameterServerStrategy (asynchronous) with 1 ps and some workers of one thread, as processes on loopback.

usage: tensorflow_cluster.py --serve JOB INDEX     one of these processes; the cluster is in the environment's PEER_CLUSTER
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


def measure(make_training, batch, workers, seconds, steps_per_worker):
    """Trains for `seconds`, prints the examples per second of all workers together, and ends the process.

    make_training(tf) is called in the scope of the strategy. It makes the variables and returns a function that makes the data set
    of one worker, and a function that trains on one element of it. Between two looks at the clock each worker does
    `steps_per_worker` steps.
    """
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
        with strategy.scope():
            dataset, step = make_training(tf)
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        examples = iter(coordinator.create_per_worker_dataset(dataset))

        @tf.function
        def worker_step(iterator):
            step(*next(iterator))

        def run(n):
            for _ in range(n):
                coordinator.schedule(worker_step, args=(examples,))
            coordinator.join()

        run(10 * workers)
        done, chunk, start = 0, steps_per_worker * workers, time.perf_counter()
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
    if sys.argv[1:2] != ["--serve"]:
        sys.exit(__doc__)
    serve(sys.argv[2], int(sys.argv[3]))
