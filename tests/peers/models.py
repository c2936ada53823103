"""The models of the benchmarks, in PyTorch and in Keras, and a step function for each."""
import os


def torch_step(model, batch, threads, compiled=False, channels_last=False):
    """Returns a function that runs one training step (forward, backward, SGD) on fixed data."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    if model == "seed_mlp":
        sizes = [600, 512, 128, 128, 1]
        layers = []
        for i in range(4):
            layers.append(torch.nn.Linear(sizes[i], sizes[i + 1]))
            if i < 3:
                layers.append(torch.nn.ReLU())
        network = torch.nn.Sequential(*layers)
        x, y = torch.rand(batch, 600), torch.rand(batch, 1)
        loss_of = torch.nn.functional.mse_loss
    elif model in ("mobilenet_v2", "resnet18"):
        import torch_models

        network, size = torch_models.MODELS[model]
        network = network()
        x, y = torch.rand(batch, 3, size, size), torch.randint(0, 10, (batch,))
        loss_of = torch.nn.functional.cross_entropy
    else:
        network = torch.nn.Sequential(
            torch.nn.Conv2d(1, 32, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(32, 64, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Flatten(), torch.nn.Linear(3136, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
        x, y = torch.rand(batch, 1, 28, 28), torch.randint(0, 10, (batch,))
        loss_of = torch.nn.functional.cross_entropy
    if channels_last:
        network = network.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-4)
    forward = torch.compile(network) if compiled else network

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(forward(x), y)
        loss.backward()
        optimizer.step()

    return step


def keras_model(model):
    import tensorflow as tf

    k = tf.keras
    if model == "seed_mlp":
        return k.Sequential([k.Input((600,))] + [k.layers.Dense(n, activation="relu") for n in (512, 128, 128)]
                            + [k.layers.Dense(1)])
    if model == "mobilenet_v2":
        return k.applications.MobileNetV2(input_shape=(96, 96, 3), weights=None, classifier_activation=None)
    return k.Sequential([
        k.Input((28, 28, 1)), k.layers.Conv2D(32, 5, padding="same", activation="relu"), k.layers.MaxPool2D(2),
        k.layers.Conv2D(64, 5, padding="same", activation="relu"), k.layers.MaxPool2D(2), k.layers.Flatten(),
        k.layers.Dense(512, activation="relu"), k.layers.Dense(10)])


def tensorflow_step(model, batch, threads):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.random.set_seed(1)
    network = keras_model(model)
    if model == "seed_mlp":
        x, y = tf.random.uniform((batch, 600)), tf.random.uniform((batch, 1))
        loss_of = lambda p: tf.reduce_mean(tf.square(p - y))
    else:
        shape = (96, 96, 3) if model == "mobilenet_v2" else (28, 28, 1)
        x, y = tf.random.uniform((batch, *shape)), tf.random.uniform((batch,), 0, 10, tf.int32)
        loss_of = lambda p: tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, p))
    variables = network.trainable_variables

    @tf.function
    def graph_step():
        with tf.GradientTape() as tape:
            loss = loss_of(network(x, training=True))
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(1e-4 * gradient)
        return loss

    return lambda: graph_step().numpy()
