"""Private addresses of running EC2 instances. Blocks. boto3 is the extra `aws`."""

from __future__ import annotations

from typing import Any

from stoker_edge.edge import Ec2Instances
from stoker_edge.problem import EdgeProblem


def private_addresses(name: str, instances: Ec2Instances, timeout: float) -> list[str]:
    """Raises EdgeProblem. Credentials, region and endpoint come from the AWS environment, unless the edge says so."""
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError as error:
        text = f"edge '{name}': discovery by EC2 needs boto3: type `pip install 'stoker[aws]'`"
        raise EdgeProblem(text, code="missing_extra") from error
    bounds = Config(connect_timeout=timeout / 4, read_timeout=timeout / 4, retries={"total_max_attempts": 2})
    filters = [{"Name": "instance-state-name", "Values": ["running"]}]
    filters += [{"Name": f"tag:{key}", "Values": [value]} for key, value in sorted(instances.tags.items())]
    asked: dict[str, Any] = {"InstanceIds": [instances.instance_id]} if instances.instance_id else {}
    try:
        client = boto3.client("ec2", region_name=instances.region or None, config=bounds)
        pages = list(client.get_paginator("describe_instances").paginate(Filters=filters, **asked))
    except (BotoCoreError, ClientError) as error:
        text = f"edge '{name}': EC2 cannot be asked: {error}: check it with `aws ec2 describe-instances`"
        raise EdgeProblem(text, code="discovery_failed") from error
    return [
        instance["PrivateIpAddress"]
        for page in pages
        for reservation in page["Reservations"]
        for instance in reservation["Instances"]
        if instance.get("PrivateIpAddress")
    ]
