"""The alert rules of deploy/monitoring as the Prometheus operator takes them."""
import pathlib

import kustomize

RULES = pathlib.Path(__file__).resolve().parent.parent / "monitoring" / "alerts.yaml"
FILE = "prometheus_rule.yaml"  # where --write puts it


def prometheus_rule():
    """Made from the one file of rules, which is for a Prometheus without the operator as it stands."""
    return {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
            "metadata": {"name": "shoal",
                         "labels": {"app.kubernetes.io/name": "shoal", "app.kubernetes.io/part-of": "shoal"}},
            "spec": {"groups": kustomize.read_yaml(RULES)[0]["groups"]}}
