"""Discovery by the EC2 API, against moto's HTTP server: only private addresses of running instances are read."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from tests.edge.ingresses import free_port

from stoker_edge.discover import discover
from stoker_edge.edge import Ec2Instances, Edge, EdgeWorker
from stoker_edge.problem import EdgeProblem

REGION = "eu-central-1"
IMAGE = "ami-12c6146b"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while True:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                break
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    process.kill()  # it keeps nothing
    process.wait()


@pytest.fixture
def ec2(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client; discovery asks the same server, as the AWS environment says."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    return boto3.client("ec2", region_name=REGION)


def started(ec2: Any, **tags: str) -> dict[str, Any]:
    wanted = [{"ResourceType": "instance", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}]
    made = ec2.run_instances(ImageId=IMAGE, MinCount=1, MaxCount=1, TagSpecifications=wanted)
    return dict(made["Instances"][0])


def found(instances: Ec2Instances) -> list[str]:
    edge = Edge("gpu", EdgeWorker(instances, 8000, "qwen"))
    return [address.host for address in asyncio.run(discover(edge))]


def test_a_worker_is_found_by_tags_and_by_id_and_again_after_it_was_replaced(ec2: Any) -> None:
    first = started(ec2, Role="llm", Team="one")
    started(ec2, Role="llm", Team="other")
    by_tags = Ec2Instances(REGION, tags={"Role": "llm", "Team": "one"})
    assert found(by_tags) == [first["PrivateIpAddress"]]
    assert found(Ec2Instances(REGION, first["InstanceId"])) == [first["PrivateIpAddress"]]
    assert first.get("PublicIpAddress") not in found(by_tags)
    ec2.terminate_instances(InstanceIds=[first["InstanceId"]])
    second = started(ec2, Role="llm", Team="one")
    assert found(by_tags) == [second["PrivateIpAddress"]]


def test_every_instance_with_the_tags_is_probed(ec2: Any) -> None:
    both = {started(ec2, Role="pair")["PrivateIpAddress"] for _ in range(2)}
    assert set(found(Ec2Instances(REGION, tags={"Role": "pair"}))) == both


def test_no_instance_is_an_error_with_the_next_command(ec2: Any) -> None:
    with pytest.raises(EdgeProblem, match=r"EC2 \(Role=none\) gave no address: `aws ec2 describe-instances`"):
        found(Ec2Instances(REGION, tags={"Role": "none"}))


def test_an_unknown_id_and_a_dead_endpoint_say_what_ec2_said(ec2: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EdgeProblem, match=r"EC2 cannot be asked: .*InvalidInstanceID"):
        found(Ec2Instances(REGION, "i-0123456789abcdef0"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(EdgeProblem, match=r"EC2 cannot be asked: Could not connect"):
        found(Ec2Instances(REGION, tags={"Role": "llm"}))


def test_without_boto3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(EdgeProblem, match=r"needs boto3: type `pip install 'stoker\[aws\]'`"):
        found(Ec2Instances(REGION, tags={"Role": "llm"}))
