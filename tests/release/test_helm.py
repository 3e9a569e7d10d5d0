"""The Helm chart: its configuration is valid, and what it renders is what Kubernetes accepts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scripts.releasing import version

yaml: Any = pytest.importorskip("yaml")
CHART = version.ROOT / "deploy" / "helm" / "stoker"
KUBERNETES = "1.34"
EVERYTHING = ["--set", "ingress.enabled=true", "--set", "ingress.tlsSecret=tls", "--set", "serviceMonitor.enabled=true",
              "--set", "serviceMonitor.secret=observer"]  # fmt: skip
needs_helm = pytest.mark.skipif(shutil.which("helm") is None, reason="no helm on PATH")


def rendered(*words: str) -> list[dict[str, Any]]:
    command = ["helm", "template", "stoker", str(CHART), "--kube-version", f"{KUBERNETES}.0", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [dict(one) for one in yaml.safe_load_all(done.stdout)]


def test_the_configuration_of_the_chart_passes_its_check(tmp_path: Path) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    (tmp_path / "stoker.toml").write_text(values["config"])
    command = [
        str(Path(sys.executable).with_name("stoker")),
        "config",
        "check",
        "--config",
        str(tmp_path / "stoker.toml"),
    ]
    environment = {**os.environ, "STOKER_KEY": "key-of-at-least-16-letters"}
    checked = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (checked.returncode, "no problems; 1 serve" in checked.stdout) == (0, True), checked.stderr


def test_every_value_has_a_schema() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    properties = json.loads((CHART / "values.schema.json").read_text())["properties"]
    assert set(values) <= set(properties)
    for name, value in values.items():
        if isinstance(value, dict) and "properties" in properties[name]:
            assert set(value) <= set(properties[name]["properties"]), name


@needs_helm
def test_what_it_renders_is_one_ordinary_pod_with_probes_and_a_volume() -> None:
    kinds = {one["kind"]: one for one in rendered(*EVERYTHING)}
    assert set(kinds) == {"ConfigMap", "Service", "StatefulSet", "Ingress", "ServiceMonitor"}
    pod = kinds["StatefulSet"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsNonRoot"]) == (10001, True)
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["image"] == f"stoker:{version.current()}-gateway"
    assert pod["terminationGracePeriodSeconds"] > 30, "front_door.shutdown_grace"


@needs_helm
def test_a_wrong_value_is_refused() -> None:
    command = [
        "helm",
        "template",
        "stoker",
        str(CHART),
        "--kube-version",
        f"{KUBERNETES}.0",
        "--set",
        "service.type=Foo",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "/service/type" in done.stderr


@needs_helm
@pytest.mark.skipif(shutil.which("kubernetes-validate") is None, reason="no kubernetes-validate: pip install it")
def test_kubernetes_accepts_what_it_renders(tmp_path: Path) -> None:
    own = [one for one in rendered(*EVERYTHING) if one["kind"] != "ServiceMonitor"]  # the operator's, not Kubernetes'
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(own))
    command = ["kubernetes-validate", "--strict", "-k", KUBERNETES, str(tmp_path / "all.yaml")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
