"""The optimizers are those of the run file, with its defaults; both are read from the sources."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

import shoal
from shoal import optimizers

ROOT = Path(__file__).parents[2]
PROTO = (ROOT / "proto/v1/optimizer_config.proto").read_text()
OPTIONS = (ROOT / "ml/optim/optimizer_options.h").read_text()
DEFAULTS = (ROOT / "runtime/config/defaults.h").read_text()

CLASSES = {c.rule: c for c in optimizers.Optimizer.__subclasses__()}
COMMON = {field.name for field in dataclasses.fields(optimizers.Optimizer)}
# Fields of Adam's message that belong to AdamW only.
ADAMW_ONLY = {"weight_decay"}


def message_fields(name):
    body = re.search(rf"^message {name} \{{(.*?)\}}", PROTO, re.M | re.S).group(1)
    body = re.sub(r"//.*|enum \w+ \{.*", "", body)
    return set(re.findall(r"\b(\w+) = \d+;", body))


def rules():
    oneof = re.search(r"oneof rule \{(.*?)\}", PROTO, re.S).group(1)
    return {name: message for message, name in re.findall(r"(\w+) (\w+) = \d+;", oneof)}


def default_in_cpp(rule, field):
    """The default in optimizer_options.h; fields there have the rule as a prefix where names would collide."""
    prefixed = "adam_" + field if rule == "adamw" else f"{rule}_{field}"
    for name in (prefixed, field):
        found = re.search(rf"^  (?:double|bool) {name} = ([-\w.]+);", OPTIONS, re.M)
        if found:
            return json.loads(found.group(1))
    raise AssertionError(f"{rule}.{field} is not in optimizer_options.h")


def test_there_is_a_class_for_every_rule_of_the_run_file():
    assert set(CLASSES) == set(rules())
    assert all(hasattr(shoal, c.__name__) for c in CLASSES.values())


@pytest.mark.parametrize("rule", sorted(rules()))
def test_fields_and_defaults_are_those_of_the_run_file(rule):
    fields = {f.name: f.default for f in dataclasses.fields(CLASSES[rule]) if f.name not in COMMON}
    expected = message_fields(rules()[rule]) - (ADAMW_ONLY if rule == "adam" else set())
    assert set(fields) == expected
    for name, default in fields.items():
        if name != "nesterov":  # a rule of its own in optimizer_options.h
            assert default == default_in_cpp(rule, name), name


def test_the_common_options_and_the_learning_rates_are_those_of_the_run_file():
    body = PROTO[PROTO.index("message OptimizerConfig") :]
    outside = re.sub(r"oneof rule \{.*?\}", "", body, flags=re.S)
    assert set(re.findall(r"\b(\w+) = \d+;", outside)) == COMMON - {"groups"} | {"group"}
    assert message_fields("OptimizerGroup") == {field.name for field in dataclasses.fields(shoal.Group)}
    for rule, kind in CLASSES.items():
        name = "kDefaultAdamLearningRate" if rule in ("adam", "adamw") else "kDefaultLearningRate"
        default = re.search(rf"\b{name} = ([\d.e-]+);", DEFAULTS)
        assert kind().learning_rate == float(default.group(1)), rule


def test_schedules_are_those_of_the_run_file():
    body = re.search(r"message ScheduleConfig \{(.*?)\n\}", PROTO, re.S).group(1)
    kinds = {kind.lower() for kind in re.findall(r"KIND_(\w+) =", body)} - {"unspecified"}
    classes = {c.kind: c for c in optimizers.Schedule.__subclasses__()}
    assert set(classes) == kinds
    known = set(re.findall(r"\b(\w+) = \d+;", body[body.index("}") :])) - {"kind"}
    assert set().union(*({f.name for f in dataclasses.fields(c)} for c in classes.values())) == known


def test_settings_are_text_of_a_run_file():
    assert shoal.SGD(0.1).settings() == "optimizer { learning_rate: 0.1 sgd {} }"
    assert (
        shoal.Momentum(0.1, nesterov=True).settings()
        == "optimizer { learning_rate: 0.1 momentum { momentum: 0.9 nesterov: true } }"
    )
    text = shoal.Adam(schedule=shoal.Cosine(warmup_steps=5), clip_by_global_norm=1).settings()
    assert text == (
        "optimizer { learning_rate: 0.001 adam { beta1: 0.9 beta2: 0.999 epsilon: 1e-08 } "
        "schedule { kind: KIND_COSINE warmup_steps: 5 } clip_by_global_norm: 1 }"
    )
    assert "epsilon: 1e-08 corrected_epsilon: true }" in shoal.Adam(corrected_epsilon=True).settings()
    assert "epsilon: 1e-10 centered: true }" in shoal.RMSProp(centered=True).settings()
    assert "centered" not in shoal.RMSProp().settings()
    steps = shoal.Step(boundary=[10, 20], value=[0.5, 0.25])
    assert "boundary: 10 boundary: 20 value: 0.5 value: 0.25" in shoal.SGD(schedule=steps).settings()
    saw = shoal.Polynomial(decay_steps=10, cycle=True)
    assert saw.settings() == "schedule { kind: KIND_POLYNOMIAL decay_steps: 10 power: 1.0 cycle: true }"
    groups = [
        shoal.Group(".*[.]bias", weight_decay=0),
        shoal.Group(r'a\.b"', learning_rate_multiplier=2),
        shoal.Group("c", frozen=True),
    ]
    assert shoal.SGD(0.1, groups=groups).settings() == (
        'optimizer { learning_rate: 0.1 sgd {} group { variables: ".*[.]bias" weight_decay: 0.0 } '
        'group { variables: "a\\\\.b\\"" learning_rate_multiplier: 2.0 } group { variables: "c" frozen: true } }'
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: shoal.Adam(-1), "Adam: learning_rate is -1; it must not be negative"),
        (lambda: shoal.Adam("0.1"), "Adam: learning_rate is '0.1'; it must be a finite number"),
        (lambda: shoal.Adam(float("nan")), "learning_rate is nan"),
        (lambda: shoal.Momentum(0.1, momentum=1.0), "momentum is 1.0; it must be below 1"),
        (lambda: shoal.Momentum(0.1, 0.9), "schedule is a float"),
        (lambda: shoal.Momentum(0.1, nesterov=2), "Momentum: nesterov is 2; it must be True or False"),
        (lambda: shoal.RMSProp(centered=1), "RMSProp: centered is 1; it must be True or False"),
        (lambda: shoal.AdamW(corrected_epsilon=1e-8), "AdamW: corrected_epsilon is 1e-08; it must be True or False"),
        (lambda: shoal.Adam(groups=shoal.Group("a")), "Adam: groups is a Group; it must be a list of shoal.Group"),
        (lambda: shoal.Adam(groups=["a"]), "Adam: a group is a str; it must be a shoal.Group"),
        (lambda: shoal.Group(""), "Group: variables is ''; it must be an expression"),
        (lambda: shoal.Group("a", weight_decay=-1), "Group 'a': weight_decay is -1; it must not be negative"),
        (lambda: shoal.Group("a", learning_rate=float("inf")), "learning_rate is inf; it must be a finite number"),
        (lambda: shoal.Group("a", 0.1, 2.0), "give learning_rate or learning_rate_multiplier, not both"),
        (lambda: shoal.Group("a", 0.1, frozen=True), "Group 'a': frozen parameters have no learning_rate"),
        (lambda: shoal.Group("a", frozen=1), "frozen is 1; it must be True or False"),
        (lambda: shoal.Ftrl(groups=[shoal.Group("a", weight_decay=1)]), "'a' has weight_decay; use Ftrl's l2"),
    ],
)
def test_wrong_options_are_refused_with_file_and_line(make, message):
    with pytest.raises(shoal.ProgramError) as raised:
        make()
    assert message in str(raised.value)
    assert re.match(r"\S*test_optimizers\.py:\d+: ", str(raised.value))
