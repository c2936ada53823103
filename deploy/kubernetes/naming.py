"""Gives the objects of a run another name than shoal, so that several runs share a namespace."""

# Keys under which the name of an object stands, anywhere in a document.
REFERENCES = {"serviceName", "subdomain", "claimName", "secretName"}
HOLDERS = {"metadata", "configMap", "configMapRef", "runtimeRef"}  # Their "name" is an object's.
SELECTOR = "app.kubernetes.io/name"  # Its value is in every selector.
# One object for all runs of the namespace.
SHARED_KINDS = {"PrometheusRule"}


def rename(documents, name):
    """The documents with `name` in place of `shoal` in names, in what refers to them, and in selectors."""
    return [d if d["kind"] in SHARED_KINDS else renamed(d, name, None) for d in documents]


def renamed(value, name, holder):
    if isinstance(value, list):
        return [flag_with_host(entry, name) if isinstance(entry, str) else renamed(entry, name, holder)
                for entry in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for key, entry in value.items():
        is_name = key in REFERENCES or key == SELECTOR or (key == "name" and holder in HOLDERS)
        result[key] = object_name(entry, name) if is_name and isinstance(entry, str) else renamed(entry, name, key)
    return result


def object_name(text, name):
    return name + text[len("shoal"):] if text == "shoal" or text.startswith("shoal-") else text


def flag_with_host(text, name):
    """--chief_host=shoal-chief-0.shoal:2222 has the names of a Job and of a Service."""
    flag, equals, hosts = text.partition("=")
    if flag != "--chief_host" or not equals:
        return text
    host, colon, port = hosts.partition(":")
    return f"{flag}={'.'.join(object_name(part, name) for part in host.split('.'))}{colon}{port}"
