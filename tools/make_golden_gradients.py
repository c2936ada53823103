#!/usr/bin/env python3
"""Makes ml/nn/golden/*.txt: gradients of the zoo's models as PyTorch computes them, for ml/nn/golden_gradients_test.cc.

usage, with the environment that tests/peers/run installs (SHOAL_PEERS, default ~/.cache/shoal/peers):
  ~/.cache/shoal/peers/bin/python3 tools/make_golden_gradients.py [MODEL...]

The model is read from `bazel-bin/deploy/shoal model MODEL` and computed in training mode without dropout, once in float64 and once
in float32. Weights and inputs are a function of their name, the seed and the element's number (value() below), so that the
test makes the same ones. Only a sketch of each gradient is written: element i is added, with a sign, to one of 16 sums; sign
and sum are functions of i. The square of the norm of a difference of sketches estimates that of the tensors without bias, and
every element counts. Tensors of up to 16 elements are written whole. Errors are averaged over several draws of weights and
inputs: that of a single one is mostly how the rounding of the logits happens to fall.

A gradient is not continuous where a ReLU's input is 0 (or 6) or where two pixels of a maximum pool are equal: there any
rounding decides. So offsets of batch norms are about 2, which leaves a few of a hundred activations below 0, and seeds are
searched for which float32's rounding is far from all such places.
"""
import base64
import math
import pathlib
import re
import subprocess
import sys

import numpy as np
import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parent.parent
NUM_SUMS = 16
MAX_SEEDS = 60
FAR = 8  # as many root mean squares of float32's error from every kink

#         name: batch, example's shape, classes (0: a regression); 8 draws of the small models, 4 of the others
MODELS = {
    "softmax_regression": (16, (1, 28, 28), 10), "linear": (16, (20,), 0), "mlp": (16, (1, 28, 28), 10),
    "seed_mlp": (32, (600,), 0), "lenet5": (8, (1, 28, 28), 10), "fashion_cnn": (4, (1, 28, 28), 10),
    "cifar10_cnn": (4, (3, 24, 24), 10), "vgg16": (4, (3, 32, 32), 10), "speech_conv": (2, (1, 98, 40), 12),
    "cnn_trad_fpool3": (4, (1, 32, 40), 4), "mobilenet_v2": (6, (3, 32, 32), 10), "mobilenet_v2_dense": (6, (3, 32, 32), 10),
    "resnet18": (6, (3, 32, 32), 10), "resnet50": (8, (3, 32, 32), 10),
}


def mix(x):
    """The finalizer of SplitMix64, on arrays of uint64."""
    x = x ^ (x >> np.uint64(30))
    x = x * np.uint64(0xbf58476d1ce4e5b9)
    x = x ^ (x >> np.uint64(27))
    x = x * np.uint64(0x94d049bb133111eb)
    return x ^ (x >> np.uint64(31))


def bits_of(name, seed, count):
    """FNV-1a of the name and the seed, then SplitMix64."""
    key = 0xcbf29ce484222325
    for byte in f"{name}#{seed}".encode():
        key = (key ^ byte) * 0x100000001b3 % 2**64
    return mix(np.uint64(key) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9e3779b97f4a7c15))


def value(name, seed, shape, center, radius):
    """Uniform in center +- radius, in float32."""
    bits = bits_of(name, seed, math.prod(shape))
    unit = (bits >> np.uint64(40)).astype(np.float64) / 2**24
    return (center + radius * (2 * unit - 1)).astype(np.float32).reshape(shape)


def sketch(name, gradient):
    flat = gradient.double().numpy().ravel()
    if flat.size <= NUM_SUMS:
        return flat
    bits = bits_of(name, "sketch", flat.size)
    signed = np.where(bits >> np.uint64(63) == 1, -flat, flat)
    return np.bincount((bits & np.uint64(NUM_SUMS - 1)).astype(np.int64), weights=signed, minlength=NUM_SUMS)


def parse(text):
    """A text proto as {field: [values]}; a message is such a dictionary."""
    tokens = re.findall(r'"[^"]*"|[\w.+-]+|[{}:\[\],]', re.sub(r"#.*", "", text))

    def scalar(token):
        if token[0] == '"':
            return token[1:-1]
        if token in ("true", "false"):
            return token == "true"
        return token if token[0].isalpha() else float(token) if set(token) & set(".e") else int(token)

    def message(at):
        fields = {}
        while at < len(tokens) and tokens[at] != "}":
            values = fields.setdefault(tokens[at], [])
            at += 1
            if tokens[at] == "{":
                inner, at = message(at + 1)
                values.append(inner)
                at += 1
                continue
            at += 1  # the colon
            if tokens[at] == "[":
                end = tokens.index("]", at)
                values += [scalar(t) for t in tokens[at + 1:end] if t != ","]
                at = end + 1
            else:
                values.append(scalar(tokens[at]))
                at += 1
        return fields, at

    return message(0)[0]


class Network:
    """Computes the layers in one type; remembers distances from places where the gradient jumps."""

    def __init__(self, layers, seed, dtype, classes):
        self.layers, self.seed, self.dtype, self.classes = layers, seed, dtype, classes
        self.variables, self.kinks, self.regularization = {}, [], 0

    def variable(self, name, shape, center, radius):
        if name not in self.variables:
            values = torch.from_numpy(value(name, self.seed, shape, center, radius)).to(self.dtype)
            self.variables[name] = values.requires_grad_()
        return self.variables[name]

    def weights(self, name, shape, fan_in, decay):
        w = self.variable(name, shape, 0, math.sqrt(6 / fan_in))
        if decay:
            self.regularization = self.regularization + decay / 2 * (w * w).sum()
        return w

    def activate(self, x, layer):
        kind = layer.get("activation", [""])[0]
        if kind in ("ACTIVATION_KIND_RELU", "ACTIVATION_KIND_RELU6"):
            self.kinks.append(x.detach())
        if kind == "ACTIVATION_KIND_RELU":
            return F.relu(x)
        if kind == "ACTIVATION_KIND_RELU6":
            self.kinks.append(x.detach() - 6)
            return F.hardtanh(x, 0, 6)
        return {"": lambda: x, "ACTIVATION_KIND_TANH": lambda: torch.tanh(x)}[kind]()

    def pads(self, layer, size, kernel, stride, same):
        """Left, right, top, bottom, as F.pad takes them."""
        if "padding" in layer:
            return [layer["padding"][0]] * 4
        if not same:
            return [0] * 4
        total = [max(0, (-(-n // s) - 1) * s + k - n) for n, k, s in zip(size, kernel, stride)]
        return [total[1] // 2, total[1] - total[1] // 2, total[0] // 2, total[0] - total[0] // 2]

    def dense(self, name, layer, x, decay):
        x = x.flatten(1)
        units = self.classes if layer is self.layers[-1]["dense"][0] and self.classes else layer["units"][0]
        w = self.weights(f'{name}/{layer.get("weights_name", ["weights"])[0]}', (x.shape[1], units), x.shape[1], decay)
        bias = self.variable(f'{name}/{layer.get("biases_name", ["biases"])[0]}', () if "scalar_bias" in layer else (units,), 0, 0.1)
        return self.activate(x @ w + bias, layer)

    def convolution(self, name, layer, x, decay):
        kernel = (layer["kernel"] * 2)[:2]
        stride = (layer.get("stride", [1]) * 2)[:2]
        groups = x.shape[1] if "depthwise" in layer else 1
        shape = (layer["channels"][0] if groups == 1 else groups, x.shape[1] // groups, *kernel)
        w = self.weights(f"{name}/weights", shape, math.prod(shape[1:]), decay)
        bias = None if "no_bias" in layer else self.variable(f"{name}/biases", shape[:1], 0, 0.1)
        pads = self.pads(layer, x.shape[2:], kernel, stride, "valid_padding" not in layer)
        if pads[0] == pads[1] and pads[2] == pads[3]:
            return self.activate(F.conv2d(x, w, bias, stride, (pads[2], pads[0]), groups=groups), layer)
        return self.activate(F.conv2d(F.pad(x, pads), w, bias, stride, groups=groups), layer)

    def pool(self, layer, x):
        if "global" in layer:
            return x.mean((2, 3))
        kernel = (layer["kernel"] * 2)[:2]
        kernel = [min(k, n) for k, n in zip(kernel, x.shape[2:])]
        stride = (layer.get("stride", kernel) * 2)[:2]
        if "average" in layer:
            return F.avg_pool2d(x, kernel, stride)
        x = F.pad(x, self.pads(layer, x.shape[2:], kernel, stride, "same_padding" in layer), value=-math.inf)
        windows = x.detach().unfold(2, kernel[0], stride[0]).unfold(3, kernel[1], stride[1]).flatten(4)
        top = windows.topk(2, -1).values
        self.kinks.append(torch.where(top[..., 0] > 0, top[..., 0] - top[..., 1], torch.inf))
        return F.max_pool2d(x, kernel, stride)

    def batch_norm(self, name, layer, x):
        gamma = self.variable(f"{name}/gamma", (x.shape[1],), 1, 0.25)
        beta = self.variable(f"{name}/beta", (x.shape[1],), 2, 0.5)
        x = F.batch_norm(x, None, None, gamma, beta, True, eps=layer.get("epsilon", [1e-3])[0])
        return self.activate(x, layer)

    def __call__(self, x):
        outputs = {}
        for config in self.layers:
            kind = next(k for k in config if k not in ("name", "input", "weights_initializer", "biases_initializer", "weight_decay"))
            name, layer, decay = config.get("name", [""])[0], config[kind][0], config.get("weight_decay", [0])[0]
            inputs = [outputs[i] for i in config.get("input", [])] or [x]
            if kind == "add":
                x = self.activate(inputs[0] + inputs[1], layer)
            elif kind == "dense":
                x = self.dense(name, layer, inputs[0], decay)
            elif kind == "convolution":
                x = self.convolution(name, layer, inputs[0], decay)
            elif kind == "pool":
                x = self.pool(layer, inputs[0])
            elif kind == "batch_norm":
                x = self.batch_norm(name, layer, inputs[0])
            elif kind == "local_response_norm":
                window = 2 * layer["depth_radius"][0] + 1
                x = F.local_response_norm(inputs[0], window, layer["alpha"][0] * window, layer["beta"][0], 1)
            elif kind != "dropout":
                raise ValueError(f"layer {kind}")
            outputs[name] = x
        return x


def loss_of(model, layers, seed, dtype):
    batch, shape, classes = MODELS[model]
    network = Network(layers, seed, dtype, classes)
    x = torch.from_numpy(value("input", seed, (batch, *shape), 0, 1)).to(dtype)
    y = network(x)
    if classes == 0:
        target = torch.from_numpy(value("target", seed, (batch, 1), 0, 1)).to(dtype)
        return network, F.mse_loss(y, target) + network.regularization
    labels = torch.from_numpy((bits_of("label", seed, batch) % np.uint64(classes)).astype(np.int64))
    return network, F.cross_entropy(y, labels) + network.regularization


def distance(model, layers, seed):
    """The least distance from a kink, in root mean squares of float32's error there."""
    with torch.no_grad():
        exact, single = (loss_of(model, layers, seed, dtype)[0].kinks for dtype in (torch.float64, torch.float32))
    least = math.inf
    for a, b in zip(exact, single):
        known = torch.isfinite(a) & torch.isfinite(b)
        if known.any():
            error = (a - b)[known].square().mean().sqrt().item()
            least = min(least, a[known].abs().min().item() / error)
    return least


def choose_seeds(model, layers):
    """The first seeds that are far from kinks, or, if there are too few, the farthest: [(distance, seed)]."""
    draws, found = 8 if len(layers) < 20 else 4, []
    for seed in range(1, MAX_SEEDS + 1):
        found.append((distance(model, layers, seed), seed))
        far = [f for f in found if f[0] >= FAR]
        if len(far) == draws:
            return far
    return sorted(found, reverse=True)[:draws]


def gradients(model, layers, seed, dtype):
    network, loss = loss_of(model, layers, seed, dtype)
    loss.backward()
    return loss.item(), {name: v.grad for name, v in network.variables.items()}


def draw(model, layers, seed):
    """The lines of one seed."""
    loss, exact = gradients(model, layers, seed, torch.float64)
    _, single = gradients(model, layers, seed, torch.float32)
    batch, shape, classes = MODELS[model]
    lines = [f"draw {seed} {batch} {classes} {loss!r} {' '.join(map(str, shape))}"]
    for name, gradient in exact.items():
        sums = sketch(name, gradient)
        norm = gradient.norm().item()
        error = float(np.linalg.norm(sketch(name, single[name]) - sums) / norm)
        lines.append(f"{name} {gradient.numel()} {norm!r} {error!r} {base64.b64encode(sums.astype('<f8').tobytes()).decode()}")
    return lines


def make(model):
    text = subprocess.run([ROOT / "bazel-bin/deploy/shoal", "model", model], capture_output=True, text=True, check=True).stdout
    layers = parse("\n".join(text.splitlines()[1:-1]))["layer"]
    seeds = choose_seeds(model, layers)
    least = min(seeds)[0]
    lines = [f"# tools/make_golden_gradients.py with torch {torch.__version__}; at least {least:.1f} root mean squares of float32's "
             "error from every kink.",
             "# draw, seed, batch, classes, loss in float64, shape of an example; for each variable: name, elements, norm of the",
             "# gradient in float64, relative error of float32, sketch in float64"]
    for _, seed in seeds:
        lines += draw(model, layers, seed)
    path = ROOT / f"ml/nn/golden/{model}.txt"
    path.write_text("\n".join(lines) + "\n")
    print(f"{model}: seeds {[seed for _, seed in seeds]}, {least:.1f} from the nearest kink, {path.stat().st_size} bytes", flush=True)


def main():
    torch.set_num_threads(1)
    for model in sys.argv[1:] or MODELS:
        make(model)


if __name__ == "__main__":
    main()
