"""`stoker cluster`, and what `stoker doctor` says about clusters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.proposals import in_text
from tests.ray.scripted_ray import TOKEN, ScriptedJob, ScriptedRay, ray_in_thread

from stoker.cli.main import run
from stoker_ray.nodes import NODE, NONCE, SERVE, SLOT

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def ray() -> Iterator[ScriptedRay]:
    with ray_in_thread() as head:
        yield head


@pytest.fixture
def lab(home: Path, ray: ScriptedRay) -> Path:
    path = home / "work" / "stoker.toml"
    (home / "work" / "token").write_text(TOKEN)
    (home / "work" / "token").chmod(0o600)
    path.write_text(
        f'[clusters.lab]\naddress = "{ray.cluster.address}"\ntoken = "file:token"\n'
        '[slots.lab-a]\ncluster = "lab"\nnode = { box = "alpha" }\n'
        '[[serve]]\nname = "fast"\nmodel = "/on/the/node.gguf"\nslot = "lab-a"\n'
    )
    return path


def test_status_shows_nodes_gpus_labels_and_our_jobs(lab: Path, ray: ScriptedRay, capsys: Captured) -> None:
    ray.nodes[1].foreign = 1
    assert run(["cluster", "status"]) == 0
    out = capsys.readouterr().out
    assert f"lab: Ray 2.60.0 at {ray.cluster.address}, 1 of 2 GPUs in use" in out
    assert ["127.0.0.5", "1", "of", "1", "box=beta"] in [line.split() for line in out.splitlines()]
    assert "no jobs of Stoker" in out
    assert run(["cluster", "status", "lab", "--json"]) == 0
    [document] = json.loads(capsys.readouterr().out)
    assert document["ray_version"] == "2.60.0"
    assert [node["gpus_in_use"] for node in document["nodes"]] == [0.0, 1.0]
    assert document["jobs"] == []


def test_a_cluster_that_does_not_answer_or_is_unknown_is_an_error_with_its_address(
    lab: Path, ray: ScriptedRay, capsys: Captured
) -> None:
    lab.write_text(lab.read_text().replace(str(ray.port), "1"))
    assert run(["cluster", "status"]) == 1
    out = capsys.readouterr().out
    assert "the head at http://127.0.0.1:1 cannot be reached: nothing listens on port 1" in out
    assert "correct `address` of [clusters.lab]" in out
    assert "next: stoker cluster up-example" in out
    assert run(["cluster", "status", "lap"]) == 2
    assert "there is no cluster 'lap'; there is lab: stoker cluster status lab" in capsys.readouterr().err
    lab.write_text("")
    assert run(["cluster", "status", "lap"]) == 2
    assert "see stoker cluster up-example" in capsys.readouterr().err


def test_what_a_cluster_that_is_not_known_proposes_is_typed(lab: Path, ray: ScriptedRay, capsys: Captured) -> None:
    assert run(["cluster", "status", "lap"]) == 2
    [proposed] = [one.text for one in in_text(capsys.readouterr().err)]
    assert run(proposed.split()[1:]) == 0
    assert f"lab: Ray 2.60.0 at {ray.cluster.address}" in capsys.readouterr().out


def test_what_answers_there_but_is_not_ray_is_not_called_an_open_cluster(
    lab: Path, ray: ScriptedRay, capsys: Captured
) -> None:
    lab.write_text(lab.read_text().replace(str(ray.cluster.address), f"{ray.cluster.address}/other"))
    vars(ray)["is_open"] = True
    assert run(["cluster", "status", "--json"]) == 1
    [document] = json.loads(capsys.readouterr().out)
    assert "does not answer as Ray does: it answered 404" in document["problem"]
    assert document["next"] == "stoker cluster up-example"


def test_a_slot_that_no_node_could_serve_is_named_and_a_job_on_a_dead_node_shows_it(
    lab: Path, ray: ScriptedRay, capsys: Captured
) -> None:
    alpha = ray.nodes[0]
    body = {
        "submission_id": "job-1", "runtime_env": {}, "entrypoint_num_gpus": 1,
        "metadata": {NONCE: "n", SERVE: "fast@lab-a", SLOT: "lab-a", NODE: alpha.id},
    }  # fmt: skip
    ray.jobs["job-1"] = ScriptedJob(body, "RUNNING", alpha)
    vars(alpha)["state"] = "DEAD"
    assert run(["cluster", "status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ["job-1", "fast@lab-a", "lab-a", alpha.ip, "(dead)", "RUNNING"] in [line.split() for line in lines]
    assert "slot 'lab-a': no node of cluster 'lab' has the labels box=alpha" in lines[-1]
    assert run(["cluster", "status", "--json"]) == 0
    [document] = json.loads(capsys.readouterr().out)
    assert [job["is_node_dead"] for job in document["jobs"]] == [True]
    assert [slot["name"] for slot in document["slots_without_node"]] == ["lab-a"]


def test_a_wrong_token_is_said_without_showing_it(lab: Path, capsys: Captured) -> None:
    lab.with_name("token").write_text("wrong-token-wrong")
    assert run(["cluster", "status"]) == 1
    said = capsys.readouterr()
    assert "refuses the token (401): correct `token` of the cluster" in said.out
    assert "must be what RAY_AUTH_TOKEN_PATH on the head names" in said.out
    assert "wrong-token-wrong" not in said.out + said.err


def test_the_example_has_the_settings_without_which_a_dead_head_kills_engines(capsys: Captured) -> None:
    assert run(["cluster", "up-example", "--head", "10.0.0.7"]) == 0
    out = capsys.readouterr().out
    settings = ("RAY_AUTH_MODE=token", "RAY_gcs_rpc_server_reconnect_timeout_s=600", "RAY_gcs_storage=rocksdb")
    assert [part for part in settings if part not in out] == []
    assert "--address=10.0.0.7:6379" in out
    assert 'address = "http://10.0.0.7:8265"' in out


def finding(capsys: Captured) -> dict[str, str]:
    return next(one for one in json.loads(capsys.readouterr().out) if one["part"] == "cluster lab")


def test_doctor_is_content_with_a_cluster_and_says_what_cannot_be_seen(lab: Path, capsys: Captured) -> None:
    run(["doctor", "--json"])
    found = finding(capsys)
    assert found["health"] == "ok"
    assert "RAY_gcs_rpc_server_reconnect_timeout_s=600" in found["detail"]


def test_doctor_refuses_a_cluster_without_a_token_and_an_old_ray(lab: Path, ray: ScriptedRay, capsys: Captured) -> None:
    vars(ray)["is_open"] = True
    assert run(["doctor", "--json"]) == 1
    found = finding(capsys)
    assert found["health"] == "fail"
    assert "answers without a token" in found["detail"]
    vars(ray).update(is_open=False, version="2.49.0")
    assert run(["doctor", "--json"]) == 1
    assert "2.52 or newer is needed" in finding(capsys)["detail"]


def test_doctor_names_a_slot_for_which_no_node_has_the_labels(lab: Path, capsys: Captured) -> None:
    lab.write_text(lab.read_text().replace('"alpha"', '"gamma"'))
    run(["doctor", "--json"])
    found = finding(capsys)
    assert found["health"] == "warn"
    assert "slot 'lab-a': no node of cluster 'lab' has the labels box=gamma" in found["detail"]


def test_doctor_does_not_look_here_for_weights_and_engine_of_a_job(lab: Path, capsys: Captured) -> None:
    run(["doctor", "--json"])
    parts = {one["part"]: one for one in json.loads(capsys.readouterr().out)}
    assert not [part for part in parts if part.startswith(("weights of", "serve "))]
    assert parts["slots"]["health"] == "ok"
