"""A parameter server in NumPy: the formulas of ml/optim/optimizer_options.h in float32."""

from __future__ import annotations

import re

import numpy as np

f = np.float32


class NumpyPs:
    def __init__(self, optimizer, values, kinds):
        self.optimizer = optimizer
        self.values = {name: value.astype(f) for name, value in values.items()}
        self.kinds = kinds
        self.step = 0
        self.slots = {}

    def apply(self, contributions):
        """Applies the mean of a step's contributions."""
        self.step += 1
        for name, kind in self.kinds.items():
            if kind == 3 or (group := self._group(name)) and group.frozen:
                continue
            mean = np.mean([c[name] for c in contributions], axis=0, dtype=f)
            if kind == 2:
                self.values[name] = mean
            else:
                self.values[name] = self._update(name, self.values[name], mean)

    def _slot(self, name, slot, value, initial=0.0):
        return self.slots.setdefault((name, slot), np.full_like(value, initial))

    def _group(self, name):
        return next((g for g in self.optimizer.groups if re.fullmatch(g.variables, name)), None)

    def _update(self, name, v, g):
        o = self.optimizer
        learning_rate, weight_decay = o.learning_rate, getattr(o, "weight_decay", 0.0)
        if group := self._group(name):
            learning_rate *= 1.0 if group.learning_rate_multiplier is None else group.learning_rate_multiplier
            learning_rate = learning_rate if group.learning_rate is None else group.learning_rate
            weight_decay = weight_decay if group.weight_decay is None else group.weight_decay
        lr = f(learning_rate)
        if o.rule != "adamw":
            g = g + f(weight_decay) * v
        if o.rule == "sgd":
            return v - lr * g
        if o.rule == "momentum":
            a = self._slot(name, "a", v) * f(o.momentum) + g
            self.slots[name, "a"] = a
            return v - (lr * g + f(learning_rate * o.momentum) * a if o.nesterov else lr * a)
        if o.rule == "adagrad":
            a = self._slot(name, "a", v, o.initial_accumulator) + g * g
            self.slots[name, "a"] = a
            return v - lr * g / (np.sqrt(a) + f(o.epsilon))
        if o.rule == "adadelta":
            a = f(o.rho) * self._slot(name, "a", v) + f(1 - o.rho) * g * g
            d = self._slot(name, "d", v)
            u = g * np.sqrt(d + f(o.epsilon)) / np.sqrt(a + f(o.epsilon))
            self.slots[name, "a"] = a
            self.slots[name, "d"] = f(o.rho) * d + f(1 - o.rho) * u * u
            return v - lr * u
        if o.rule in ("adam", "adamw"):
            m = f(o.beta1) * self._slot(name, "m", v) + f(1 - o.beta1) * g
            s = f(o.beta2) * self._slot(name, "s", v) + f(1 - o.beta2) * g * g
            self.slots[name, "m"], self.slots[name, "s"] = m, s
            root = np.sqrt(1 - o.beta2**self.step)
            rate = f(learning_rate * root / (1 - o.beta1**self.step))
            epsilon = f(o.epsilon * root if o.corrected_epsilon else o.epsilon)
            decay = f(learning_rate * weight_decay) * v if o.rule == "adamw" else f(0)
            return v - rate * m / (np.sqrt(s) + epsilon) - decay
        raise AssertionError(o.rule)
