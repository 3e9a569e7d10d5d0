"""An engine of two ranks, on two nodes of a cluster: rank 0 serves once rank 1 has found it."""

from __future__ import annotations

import dataclasses
from typing import Any

from tests.fleet.conftest import Workshop
from tests.ray.test_ray_driver import in_lab

from stoker.domain.serve import JobPlace, Serve

MEET = ("--rank", "{rank}", "--rendezvous", "{rendezvous_host}:{rendezvous_port}")


def on_two_nodes(shop: Workshop, address: str, *options: str, **fields: Any) -> Serve:
    labels = fields.pop("labels", ({"box": "alpha"}, {"box": "beta"}))
    slot = fields.pop("slot", "lab-a+lab-b")
    serve = in_lab(shop, address, *MEET, *options, slot=slot, labels=labels[0], **fields)
    assert serve.job_place is not None
    other = JobPlace("lab", address, 1, labels[1])
    return dataclasses.replace(serve, job_place=dataclasses.replace(serve.job_place, others=(other,)))
