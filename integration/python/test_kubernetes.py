"""The manifests of deploy/kubernetes, built with kustomize and held to the schemas of Kubernetes and KEDA, to the binary
and to each other."""

import functools
import pathlib
import re
import shutil
import subprocess

import jsonschema
import kubernetes_validate
import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
DIRECTORY = ROOT / "deploy" / "kubernetes"
OVERLAYS = ["deployment", "partitions", "sidecar"]
VERSIONS = [f"1.{minor}" for minor in range(29, 38)]
BUILDERS = [command for command in (["kubectl", "kustomize"], ["kustomize", "build"]) if shutil.which(command[0])]


def load(text):
    return [m for m in yaml.safe_load_all(text) if m]


@functools.cache
def build(overlay):
    if not BUILDERS:
        pytest.skip("neither kubectl nor kustomize is installed")
    done = subprocess.run([*BUILDERS[0], DIRECTORY / "overlays" / overlay], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def manifests(overlay):
    return load(build(overlay))


def of(kind, overlay="deployment"):
    return [m for m in manifests(overlay) if m["kind"] == kind]


def pods(overlay):
    """Every pod's specification, with the labels and annotations that it gets."""
    for d in of("Deployment", overlay) + of("Job", overlay):
        yield d["spec"]["template"]["metadata"], d["spec"]["template"]["spec"]


def containers(spec):
    return [c for c in spec.get("initContainers", []) + spec["containers"] if c["name"] == "embedd"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_schema(overlay, version):
    for m in manifests(overlay):
        if m["kind"] != "ScaledObject":
            kubernetes_validate.validate(m, version, strict=True)


def test_other_autoscaler():
    (m,) = load((DIRECTORY / "overlays" / "deployment" / "hpa.yaml").read_text())
    for version in VERSIONS:
        kubernetes_validate.validate(m, version, strict=True)


def test_schema_refuses_what_is_misspelt():
    d = of("Deployment")[0]
    d["spec"]["template"]["spec"]["terminationGracePeriod"] = 60
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(d, VERSIONS[0], strict=True)


def closed(schema):
    """The schema with no properties but those that it names, as a server that is asked to be strict reads it."""
    if isinstance(schema, dict):
        if "properties" in schema and "additionalProperties" not in schema and schema.get("type") == "object":
            schema = {**schema, "additionalProperties": False}
        return {k: closed(v) for k, v in schema.items()}
    return [closed(v) for v in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize("overlay", ["deployment", "partitions"])
def test_scaled_object(overlay):
    definition = yaml.safe_load((pathlib.Path(__file__).parent / "testdata" / "keda.sh_scaledobjects.yaml").read_text())
    schema = closed(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    (scaled,) = of("ScaledObject", overlay)
    jsonschema.validate(scaled, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**scaled, "spec": {**scaled["spec"], "minReplicas": 2}}, schema)


def configuration(overlay):
    (m,) = of("ConfigMap", overlay)
    return m["data"]["embedd.yaml"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_configuration(overlay, program, tmp_path):
    """What is wrong with a configuration alone ends with 2; this one gets as far as to look for its server."""
    file = tmp_path / "embedd.yaml"
    text = re.sub(r"(url|creds): .*", r"", configuration(overlay))
    file.write_text(text.replace("nats:", "nats: {url: nats://127.0.0.1:1, wait: 0s}", 1))
    done = subprocess.run([program, "check", "-c", file], capture_output=True, text=True, timeout=120)
    assert done.returncode != 2 and "127.0.0.1:1" in done.stdout + done.stderr, done
    file.write_text(file.read_text().replace("schema:", "shema:"))
    assert subprocess.run([program, "check", "-c", file], timeout=120).returncode == 2


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_configuration_changes_replace_pods(overlay):
    """The name of the ConfigMap has the hash of its content, and every pod refers to that name."""
    (m,) = of("ConfigMap", overlay)
    assert re.fullmatch(r"embedd-[a-z0-9]{10}", m["metadata"]["name"])
    for _, spec in pods(overlay):
        assert {"name": m["metadata"]["name"]} in [v.get("configMap") for v in spec["volumes"]]


def test_partitions():
    """No replica is without a partition, and the two overlays have different configurations."""
    ((_, pipeline),) = yaml.safe_load(configuration("partitions"))["pipelines"].items()
    (scaled,) = of("ScaledObject", "partitions")
    assert scaled["spec"]["maxReplicaCount"] == pipeline["input"]["partitions"]
    assert configuration("partitions") != configuration("deployment")


def test_scaling_names_what_is_there():
    """Both autoscalers read the maximum of a metric that exists: all replicas report the lag of the same pipeline."""
    for overlay in ("deployment", "partitions"):
        ((name, _),) = yaml.safe_load(configuration(overlay))["pipelines"].items()
        (scaled,) = of("ScaledObject", overlay)
        (trigger,) = scaled["spec"]["triggers"]
        query = f'max(max_over_time(embedd_lag_messages{{pipeline="{name}"}}[1m]))'
        assert trigger["type"] == "prometheus" and trigger["metadata"]["query"] == query
        (hpa,) = load((DIRECTORY / "overlays" / "deployment" / "hpa.yaml").read_text())
        (metric,) = hpa["spec"]["metrics"]
        assert metric["external"]["metric"]["name"] == "embedd_lag_messages"
        assert metric["external"]["metric"]["selector"]["matchLabels"] == {"pipeline": name}
        assert "`embedd_lag_messages`" in (ROOT / "docs" / "metrics.md").read_text()
        deployments = {d["metadata"]["name"]: d for d in of("Deployment", overlay)}
        for target in (scaled["spec"]["scaleTargetRef"], hpa["spec"]["scaleTargetRef"]):
            assert "replicas" not in deployments[target["name"]]["spec"], "an autoscaler and a number would fight"


def test_pods():
    commands = set()
    for overlay in OVERLAYS:
        port = int(yaml.safe_load(configuration(overlay))["http"]["listen"].rpartition(":")[2])
        for meta, spec in pods(overlay):
            (c,) = containers(spec)
            mounted = {m["name"] for m in c["volumeMounts"]}
            assert mounted <= {v["name"] for v in spec["volumes"]}
            assert c["securityContext"]["readOnlyRootFilesystem"] and not c["securityContext"]["allowPrivilegeEscalation"]
            if c["args"][0] == "setup":
                commands.add("setup")
                continue
            commands.add(c["args"][c["args"].index("--role") + 1])
            assert spec["terminationGracePeriodSeconds"] >= 60
            assert {p["name"]: p["containerPort"] for p in c["ports"]} == {"http": port}
            assert c["livenessProbe"]["httpGet"]["path"] == "/healthz"
            assert meta["annotations"]["prometheus.io/port"] == str(port)
    assert commands == {"setup", "transform", "train", "all"}


def selects(selector, labels):
    def holds(e):
        value = labels.get(e["key"])
        return {"In": value in e.get("values", []), "NotIn": value not in e.get("values", []),
                "Exists": value is not None, "DoesNotExist": value is None}[e["operator"]]

    return (all(labels.get(k) == v for k, v in selector.get("matchLabels", {}).items())
            and all(holds(e) for e in selector.get("matchExpressions", [])))


def is_allowed(overlay, meta, port, namespace):
    """Whether a pod of a namespace reaches a named port of a pod. A pod that no policy selects is reachable."""
    policies = [p["spec"] for p in of("NetworkPolicy", overlay) if selects(p["spec"]["podSelector"], meta["labels"])]
    assert all(p["policyTypes"] == ["Ingress"] for p in policies)
    from_labels = {"kubernetes.io/metadata.name": namespace}
    return not policies or any(
        ("from" not in rule or any(selects(f["namespaceSelector"], from_labels) for f in rule["from"]))
        and ("ports" not in rule or any(p["port"] == port for p in rule["ports"]))
        for p in policies for rule in p["ingress"])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_network(overlay):
    """The monitoring reaches the metrics of every daemon and nothing else does; a producer receives its traffic."""
    for meta, spec in pods(overlay):
        for c in spec.get("initContainers", []) + spec["containers"]:
            for port in c.get("ports", []):
                assert is_allowed(overlay, meta, port["name"], "monitoring")
                assert is_allowed(overlay, meta, port["name"], "default") == (c["name"] != "embedd")
        assert not is_allowed(overlay, meta, "other", "monitoring")


@pytest.mark.parametrize("overlay", ["deployment", "partitions"])
def test_budgets(overlay):
    """Every Deployment has a budget that selects its pods and no others."""
    budgets = {b["metadata"]["name"]: b["spec"]["selector"]["matchLabels"] for b in of("PodDisruptionBudget", overlay)}
    labels = {d["metadata"]["name"]: d["spec"]["template"]["metadata"]["labels"] for d in of("Deployment", overlay)}
    assert budgets == labels
