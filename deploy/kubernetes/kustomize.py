"""Renders a kustomization without kubectl: the part of Kustomize that the folders here use, and nothing else.

Known: resources, components, patches (strategic merge or JSON patch, inline or by path, with a target),
configMapGenerator (files, literals, behavior, hash suffix), images, replicas, namespace, labels (without
selectors). Anything else is refused, so that what kubectl would do is never silently left out. render_test.py
compares with `kubectl kustomize` where there is one.
"""
import copy
import hashlib
import json
import pathlib
import re

import yaml


class KustomizeError(Exception):
    """Says in one line what is wrong with a kustomization."""


KNOWN = {"apiVersion", "kind", "resources", "components", "patches", "configMapGenerator", "images", "replicas",
         "namespace", "labels"}

# Lists of which a strategic merge joins the elements with equal keys; other lists are replaced.
MERGE_KEYS = {"containers": "name", "initContainers": "name", "env": "name", "volumes": "name",
              "volumeMounts": "mountPath"}

POD_SPEC = {"StatefulSet": ("spec", "template", "spec"), "Deployment": ("spec", "template", "spec"),
            "Job": ("spec", "template", "spec"), "Pod": ("spec",)}


def pod_spec(document):
    """The pod spec inside a document, or None."""
    path = POD_SPEC.get(document["kind"])
    if path is None:
        return None
    for key in path:
        document = document[key]
    return document


def read_yaml(path):
    try:
        return [d for d in yaml.safe_load_all(path.read_text(encoding="utf-8")) if d is not None]
    except FileNotFoundError:
        raise KustomizeError(f"{path}: is not there") from None
    except yaml.YAMLError as error:
        raise KustomizeError(f"{path}: {' '.join(str(error).split())}") from None


class Kustomization:
    """The documents of one kustomization, before the hashes of generated names are written in."""

    def __init__(self, content, folder, texts=None, resources=None):
        """`content` is that of a kustomization.yaml; paths in it are relative to `folder`. `texts`: the data of
        ConfigMaps that replace those of the resources. `resources`: documents by the names of files that need not be
        there."""
        self.at_hand = resources or {}
        self.documents = []
        self.generated = {}  # name -> the ConfigMap's document
        self.namespace = None
        self.apply(content, pathlib.Path(folder))
        for name, data in (texts or {}).items():
            self.generated[name]["data"] = data

    @classmethod
    def of_folder(cls, folder):
        return cls(read_kustomization(pathlib.Path(folder)), folder)

    def apply(self, content, folder):
        unknown = set(content) - KNOWN
        if unknown:
            raise KustomizeError(f"{folder}: {sorted(unknown)[0]}: is not supported by render")
        first = 0 if content["kind"] == "Component" else len(self.documents)
        for name in content.get("resources", []):
            if name in self.at_hand:
                self.documents.append(self.at_hand[name])
            else:
                self.add_resource(folder / name)
        for entry in content.get("configMapGenerator", []):
            self.generate(entry, folder)
        for name in content.get("components", []):
            self.apply(read_kustomization(folder / name), folder / name)
        scope = self.documents[first:]
        for entry in content.get("patches", []):
            self.patch(entry, folder, scope)
        for entry in content.get("labels", []):
            add_labels(entry, scope)
        for entry in content.get("replicas", []):
            for document in scope:
                if document["kind"] in ("StatefulSet", "Deployment") and document["metadata"]["name"] == entry["name"]:
                    document["spec"]["replicas"] = entry["count"]
        for entry in content.get("images", []):
            set_image(entry, scope)
        self.namespace = content.get("namespace", self.namespace)

    def add_resource(self, path):
        if path.is_dir():
            self.apply(read_kustomization(path), path)
            return
        for document in read_yaml(path):
            if not isinstance(document, dict) or not {"apiVersion", "kind", "metadata"} <= set(document):
                raise KustomizeError(f"{path}: a document has no apiVersion, kind or metadata")
            self.documents.append(document)

    def generate(self, entry, folder):
        name = entry["name"]
        behavior = entry.get("behavior", "create")
        if (behavior == "create") == (name in self.generated):
            raise KustomizeError(f"{folder}: configMapGenerator {name}: behavior {behavior} does not fit")
        data = generated_data(entry, folder)
        if behavior == "create":
            self.generated[name] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
            self.documents.append(self.generated[name])
        elif behavior == "merge":
            self.generated[name]["data"].update(data)
        else:
            self.generated[name]["data"] = data

    def patch(self, entry, folder, scope):
        text = entry["patch"] if "patch" in entry else (folder / entry["path"]).read_text(encoding="utf-8")
        content = yaml.safe_load(text)
        if isinstance(content, list):
            targets = [d for d in scope if matches(entry["target"], d)]
            for document in targets:
                for operation in content:
                    json_patch(document, operation)
        else:
            target = entry.get("target", {"kind": content["kind"], "name": content["metadata"]["name"]})
            targets = [d for d in scope if matches(target, d)]
            if "target" in entry:
                content = {k: v for k, v in content.items() if k not in ("apiVersion", "kind", "metadata")}
            for document in targets:
                if content.get("$patch") == "delete":
                    self.documents.remove(document)
                else:
                    strategic_merge(document, content)
        if not targets:
            raise KustomizeError(f"{folder}: a patch fits no document: {json.dumps(entry.get('target', text))}")

    def render(self):
        """The finished documents."""
        names = {name: f"{name}-{config_map_hash(document['data'])}" for name, document in self.generated.items()}
        documents = copy.deepcopy(self.documents)
        for document in documents:
            metadata = document["metadata"]
            if document["kind"] == "ConfigMap":
                metadata["name"] = names.get(metadata["name"], metadata["name"])
            spec = pod_spec(document)
            if spec is not None:
                point_to_config_maps(spec, names)
            if self.namespace:
                metadata["namespace"] = self.namespace
        return documents


def read_kustomization(folder):
    path = folder / "kustomization.yaml"
    content = read_yaml(path)
    if len(content) != 1:
        raise KustomizeError(f"{path}: holds {len(content)} documents, not one")
    return content[0]


def generated_data(entry, folder):
    data = {}
    for name in entry.get("files", []):
        key, _, source = name.rpartition("=")
        source = folder / source
        try:
            data[key or source.name] = source.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise KustomizeError(f"{source}: is not there") from None
    for literal in entry.get("literals", []):
        key, _, value = literal.partition("=")
        data[key] = value
    return data


def matches(target, document):
    metadata = document["metadata"]
    return (re.fullmatch(target.get("kind", ".*"), document["kind"]) is not None
            and re.fullmatch(target.get("name", ".*"), metadata["name"]) is not None)


def add_labels(entry, scope):
    if entry.get("includeSelectors"):
        raise KustomizeError("labels.includeSelectors: is not supported by render")
    for document in scope:
        document["metadata"].setdefault("labels", {}).update(entry["pairs"])
        if entry.get("includeTemplates") and "template" in document.get("spec", {}):
            template = document["spec"]["template"]
            template.setdefault("metadata", {}).setdefault("labels", {}).update(entry["pairs"])


def set_image(entry, scope):
    for document in scope:
        for container in (pod_spec(document) or {}).get("containers", []):
            name, _, tag = container["image"].partition(":")
            if name != entry["name"]:
                continue
            name = entry.get("newName", name)
            if "digest" in entry:
                container["image"] = f"{name}@{entry['digest']}"
            else:
                tag = entry.get("newTag", tag)
                container["image"] = f"{name}:{tag}" if tag else name


def json_patch(document, operation):
    *parents, last = [p.replace("~1", "/").replace("~0", "~") for p in operation["path"].split("/")[1:]]
    place = document
    try:
        for key in parents:
            place = place[int(key)] if isinstance(place, list) else place[key]
        if isinstance(place, list):
            index = len(place) if last == "-" else int(last)
            if operation["op"] == "add":
                place.insert(index, copy.deepcopy(operation["value"]))
                return
            place[index]  # there must be one  pylint: disable=pointless-statement
        else:
            index = last
            if operation["op"] != "add":
                place[index]  # as above  pylint: disable=pointless-statement
        if operation["op"] == "remove":
            del place[index]
        else:
            place[index] = copy.deepcopy(operation["value"])
    except (KeyError, IndexError, ValueError, TypeError):
        raise KustomizeError(f"{document['kind']} {document['metadata']['name']}: a patch finds no "
                             f"{operation['path']}") from None


def strategic_merge(base, patch):
    for key, value in patch.items():
        if value is None:
            base.pop(key, None)
        elif isinstance(value, dict) and isinstance(base.get(key), dict):
            strategic_merge(base[key], value)
        elif isinstance(value, list) and isinstance(base.get(key), list) and key in MERGE_KEYS:
            merge_lists(base[key], value, MERGE_KEYS[key])
        else:
            base[key] = copy.deepcopy(value)


def merge_lists(base, patch, name):
    """Elements that are there are changed; new ones go to the front, as kubectl has it."""
    new = []
    for element in patch:
        found = [e for e in base if e.get(name) == element.get(name)]
        if element.get("$patch") == "delete":
            base[:] = [e for e in base if e.get(name) != element.get(name)]
        elif found:
            strategic_merge(found[0], element)
        else:
            new.append(copy.deepcopy(element))
    base[:0] = new


def point_to_config_maps(spec, names):
    for container in spec.get("containers", []):
        for source in container.get("envFrom", []):
            reference = source.get("configMapRef")
            if reference:
                reference["name"] = names.get(reference["name"], reference["name"])
    for volume in spec.get("volumes", []):
        reference = volume.get("configMap")
        if reference:
            reference["name"] = names.get(reference["name"], reference["name"])


def config_map_hash(data):
    """Kustomize's hash of a ConfigMap: a changed map gets another name, so that pods are made anew."""
    text = json.dumps({"data": data, "kind": "ConfigMap", "name": ""}, sort_keys=True, separators=(",", ":"),
                      ensure_ascii=False)
    for character, escaped in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(character, escaped)
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return digest.translate(str.maketrans({"0": "g", "1": "h", "3": "k", "a": "m", "e": "t"}))
