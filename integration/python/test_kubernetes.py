"""The manifests of deploy/kubernetes, held to the schemas of Kubernetes and KEDA, to the binary and to each other."""

import pathlib
import re
import subprocess

import jsonschema
import kubernetes_validate
import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
FILES = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
VERSIONS = [f"1.{minor}" for minor in range(29, 38)]


def manifests(name="*"):
    return [m for f in FILES if f.match(name) for m in yaml.safe_load_all(f.read_text())]


def of(kind):
    return [m for m in manifests() if m["kind"] == kind]


def pods():
    """Every pod's specification, with the labels and annotations that it gets."""
    for d in of("Deployment"):
        yield d["spec"]["template"]["metadata"], d["spec"]["template"]["spec"]
    for p in of("Pod"):
        yield p["metadata"], p["spec"]


def containers(spec):
    return [c for c in spec.get("initContainers", []) + spec["containers"] if c["name"] == "embedd"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_schema(file, version):
    for m in manifests(file.name):
        if m["kind"] != "ScaledObject":
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


def test_scaled_object():
    definition = yaml.safe_load((pathlib.Path(__file__).parent / "testdata" / "keda.sh_scaledobjects.yaml").read_text())
    schema = closed(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    (scaled,) = of("ScaledObject")
    jsonschema.validate(scaled, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**scaled, "spec": {**scaled["spec"], "minReplicas": 2}}, schema)


def configuration():
    (m,) = of("ConfigMap")
    return m["data"]["embedd.yaml"]


def test_configuration(program, tmp_path):
    """What is wrong with a configuration alone ends with 2; this one gets as far as to look for its server."""
    file = tmp_path / "embedd.yaml"
    file.write_text(re.sub(r"(url|creds): .*", r"", configuration()).replace("nats:", "nats: {url: nats://127.0.0.1:1, wait: 0s}"))
    done = subprocess.run([program, "check", "-c", file], capture_output=True, text=True, timeout=120)
    assert done.returncode != 2 and "127.0.0.1:1" in done.stdout + done.stderr, done
    file.write_text(file.read_text().replace("schema:", "shema:"))
    assert subprocess.run([program, "check", "-c", file], timeout=120).returncode == 2


def test_scaling_names_what_is_there():
    config = yaml.safe_load(configuration())
    ((name, pipeline),) = config["pipelines"].items()
    (scaled,) = of("ScaledObject")
    (trigger,) = scaled["spec"]["triggers"]
    assert trigger["metadata"]["consumer"] == "embedd_" + name
    assert trigger["metadata"]["stream"] == pipeline["input"]["stream"]
    (hpa,) = of("HorizontalPodAutoscaler")
    (metric,) = hpa["spec"]["metrics"]
    assert metric["external"]["metric"]["selector"]["matchLabels"] == {"pipeline": name}
    assert f"`{metric['external']['metric']['name']}`" in (ROOT / "docs" / "metrics.md").read_text()
    deployments = {d["metadata"]["name"]: d for d in of("Deployment")}
    for target in (scaled["spec"]["scaleTargetRef"], hpa["spec"]["scaleTargetRef"]):
        assert "replicas" not in deployments[target["name"]]["spec"], "an autoscaler and a number would fight"


def test_pods():
    port = int(yaml.safe_load(configuration())["http"]["listen"].rpartition(":")[2])
    roles = set()
    for meta, spec in pods():
        assert spec["terminationGracePeriodSeconds"] >= 60
        (c,) = containers(spec)
        roles.add(c["args"][c["args"].index("--role") + 1])
        assert {p["name"]: p["containerPort"] for p in c["ports"]} == {"http": port}
        assert c["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert meta.get("annotations", {}).get("prometheus.io/port", str(port)) == str(port)
        mounted = {m["name"] for m in c["volumeMounts"]}
        assert mounted <= {v["name"] for v in spec["volumes"]}
        assert c["securityContext"]["readOnlyRootFilesystem"] and not c["securityContext"]["allowPrivilegeEscalation"]
    assert roles == {"transform", "train", "all"}


def test_budgets():
    """Every Deployment has a budget that selects its pods and no others."""
    budgets = {b["metadata"]["name"]: b["spec"]["selector"]["matchLabels"] for b in of("PodDisruptionBudget")}
    labels = {d["metadata"]["name"]: d["spec"]["template"]["metadata"]["labels"] for d in of("Deployment")}
    assert budgets == labels
