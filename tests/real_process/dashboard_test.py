#!/usr/bin/env python3
"""The dashboard and the alert rules of deploy/monitoring against the pages of a run."""
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request

import yaml

import cluster
import evaluator_test
import monitoring_test
import promql

HERE = pathlib.Path(__file__).resolve().parent
MONITORING = HERE.parent.parent / "deploy" / "monitoring"
FLAGS = ("--metrics_address=127.0.0.1:0", "--num_epochs=5000")
TASKS = ["chief-0", "evaluator-0", "ps-0", "ps-1", "worker-0", "worker-1"]
OF_TARGETS = {"instance", "job", "namespace"}  # Prometheus adds them.
# Grafana puts these in the place of $run: one run, several, all.
RUNS = ("small", "(another|small)", ".+")


@contextlib.contextmanager
def a_run():
    """An ASYNC run, which has all metrics, with an evaluator that has found a checkpoint."""
    with cluster.Run(evaluator_test.SMALL, *evaluator_test.TWO, "--nosync_replicas", "--metrics=log_loss", *FLAGS) as run, \
            evaluator_test.Evaluator(run, *FLAGS) as evaluator:
        run.start()
        run.wait_for_step(60)
        monitoring_test.wait_until("an evaluation", evaluator.lines)
        monitoring_test.wait_until("all tasks show themselves", lambda: sorted(monitoring_test.targets(run)) == TASKS)
        yield run


def dashboard():
    return json.loads((MONITORING / "dashboard.json").read_text())


def panel_targets():
    """Title, expression and legend of each line of each panel."""
    found = [(panel["title"], target["expr"], target["legendFormat"])
             for panel in dashboard()["panels"] for target in panel["targets"]]
    assert len(found) > 20, found
    return found


def variables():
    """Name, metric with matchers, and label of each variable that is asked of Prometheus."""
    found = []
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            asked = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert asked, variable
            found.append((variable["name"], *asked.groups()))
    assert [name for name, *_ in found] == ["run"], found
    return found


def rules():
    found = [rule for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
             for rule in group["rules"]]
    assert len(found) > 10, found
    return found


def for_run(expression, run):
    filled = expression.replace("$run", run).replace("$__rate_interval", "15s")
    assert "$" not in filled, filled
    return filled


def names_in_legend(legend):
    return set(re.findall(r"{{\s*(\w+)\s*}}", legend))


def names_in_annotations(rule):
    return set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))


def check_expression(where, expression, samples, shown):
    """Every selector finds a sample; every label that groups, joins or is shown is on what it finds."""
    selectors, groupings = promql.parse(expression)
    assert selectors, f"{where}: {expression} reads nothing"
    there = set(OF_TARGETS)
    for selector in selectors:
        found = selector.of(samples)
        assert found, f"{where}: nothing is {selector}"
        there |= set.intersection(*(set(labels) for labels in found))
        if not groupings:
            missing = shown - OF_TARGETS - set.intersection(*(set(labels) for labels in found))
            assert not missing, f"{where}: {selector} has no {missing}"
    kept = [labels for how, labels in groupings if how == "by"]
    for how, labels in groupings:
        assert labels <= there, f"{where}: {how} {labels - there}, which nothing has"
    if kept:
        assert shown <= set.union(*kept), f"{where}: {shown - set.union(*kept)} is summed away"
    return {selector.name for selector in selectors}


def pages_of_a_ps_with_tables():
    """The page of a ps of another run, which has tables, as if that run had the same name."""
    with cluster.Run(str(HERE / "clicks.textproto"), "--name=small", "--num_ps_tasks=1", "--num_replicas=1", *FLAGS) as run:
        run.start()
        run.wait_for_step(20)
        found = []
        monitoring_test.wait_until("a page with tables", lambda: found.append(
            monitoring_test.get(monitoring_test.targets(run)["ps-0"], "/metrics")[1]) or "shoal_table_rows{" in found[-1])
        return found[-1]


def every_selector_finds_samples_of_a_run():
    of_tables = monitoring_test.samples(pages_of_a_ps_with_tables())
    with a_run() as run:
        seen, samples = set(), []
        for task, address in monitoring_test.targets(run).items():
            page = monitoring_test.get(address, "/metrics")[1]
            monitoring_test.check_lint(page)
            monitoring_test.check_labels(page)
            assert monitoring_test.families(page), task
            seen |= monitoring_test.families(page).keys()
            samples += monitoring_test.samples(page)
        samples += [sample for sample in of_tables if sample[0] in monitoring_test.OF_TABLES]
        for title, expression, legend in panel_targets():
            assert 'run=~"$run"' in expression, f"{title}: {expression} shows all runs"
            for chosen in RUNS:
                check_expression(title, for_run(expression, chosen), samples, names_in_legend(legend))
        for name, expression, label in variables():
            check_expression(name, expression, samples, {label})
        for rule in rules():
            assert "run" in names_in_annotations(rule), f"{rule['alert']} does not name the run"
            check_expression(rule["alert"], rule["expr"], samples, names_in_annotations(rule))
        monitoring_test.assert_documented(seen, monitoring_test.OF_TABLES)


def what_does_not_fit_is_found():
    """The checks of this file tell good expressions from bad ones."""
    samples = [("shoal_step", {"run": "small", "role": "chief"}), ("shoal_up", {"run": "small", "worker": "1"})]
    good = 'sum by (run) (rate(shoal_step{run=~"small", role!="ps"}[5m])) > 1e3 or shoal_step offset 5m'
    assert check_expression("good", good, samples, {"run"}) == {"shoal_step"}
    for bad, shown in (('shoal_step{run="other"}', set()), ('shoal_step{role=~"chie"}', set()),
                       ('shoal_step{run!~"sm.*"}', set()), ("sum by (le) (shoal_step)", set()),
                       ("shoal_step and on (instances) shoal_up", set()), ("shoal_step or shoal_gone", set()),
                       ("shoal_step", {"worker"}), ("max by (role) (shoal_step)", {"run"}), ("time()", set())):
        try:
            check_expression("bad", bad, samples, shown)
        except AssertionError:
            continue
        assert False, f"{bad} passes"


def promtool_accepts_the_rules():
    if shutil.which("promtool") is None:
        print("           (no promtool here: the rules' own tests are not run)")
        return
    for check in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"],
                  ["check", "config", "prometheus.yaml"]):
        done = subprocess.run(["promtool", *check], cwd=MONITORING, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """A server with deploy/monitoring's configuration, for one run and faster. Use as a context."""

    def __init__(self, run):
        self.directory = tempfile.TemporaryDirectory(prefix="shoal_prometheus_")
        self.address = f"127.0.0.1:{cluster.free_port()}"
        given = (MONITORING / "prometheus.yaml").read_text()
        for old, new in (("15s", "1s"), ("[alerts.yaml]", f"[{MONITORING / 'alerts.yaml'}]"),
                         ("../../runs/fashion_cnn/", f"{run.out}/")):
            assert old in given, old
            given = given.replace(old, new)
        self.config = pathlib.Path(self.directory.name) / "prometheus.yaml"
        self.config.write_text(given)

    def __enter__(self):
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={self.config}", f"--storage.tsdb.path={self.directory.name}/data",
             f"--web.listen-address={self.address}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.directory.cleanup()

    def ask(self, page, **parameters):
        url = f"http://{self.address}/api/v1/{page}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def is_up(self, tasks):
        try:
            up = self.ask("query", query="count(count_over_time(shoal_ready[15s]) > 5)")["result"]
        except (urllib.error.URLError, AssertionError):  # It is not there yet, or answers 503.
            return False
        return up and int(up[0]["value"][1]) == tasks


def prometheus_shows_every_panel():
    if shutil.which("prometheus") is None:
        print("           (no prometheus here: the expressions are only read)")
        return
    with a_run() as run, Prometheus(run) as prometheus:
        monitoring_test.wait_until("Prometheus has seen all tasks", lambda: prometheus.is_up(len(TASKS)), timeout=60)
        for title, expression, legend in panel_targets():
            shown = prometheus.ask("query", query=for_run(expression, "small"))["result"]
            # This run has no tables: Prometheus only accepts these expressions, and the first test finds their samples.
            of_tables = {selector.name for selector in promql.parse(expression)[0]} <= set(monitoring_test.OF_TABLES)
            assert bool(shown) != of_tables, f"{title}: {expression} shows {shown}"
            for series in shown:
                assert names_in_legend(legend) <= series["metric"].keys(), f"{title}: {legend} of {series['metric']}"
        for _, expression, label in variables():
            values = prometheus.ask(f"label/{label}/values", **{"match[]": expression})
            assert values == ["small"], f"{expression}: {values}"
        labels = prometheus.ask("labels")
        assert not [name for name in labels if name.startswith("exported_")], labels
        without = prometheus.ask("query", query='{__name__=~"shoal_.+|process_.+", job="shoal", run=""}')["result"]
        assert not without, without
        judged = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
        assert len(judged) == len(rules()), judged
        for rule in judged:
            assert rule["health"] == "ok", rule
        # ASYNC without pause on one machine may well be stale.
        raised = {rule["name"] for rule in judged if rule["state"] == "firing"} - {"ShoalStale", "ShoalStaleDropped"}
        assert not raised, f"a run that is well raises {raised}"


if __name__ == "__main__":
    cluster.main([every_selector_finds_samples_of_a_run, what_does_not_fit_is_found, promtool_accepts_the_rules,
                  prometheus_shows_every_panel])
