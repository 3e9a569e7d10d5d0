"""What a refused request advises is the setting that was used, or the one that is missing."""

from __future__ import annotations

import json

import pytest

from stoker.domain.serve import Secret
from stoker.http.client import HttpResponse
from stoker_edge.probe import key_advice, wrong_models

KEY = Secret("sk-worker", "env:WORKER_KEY")


@pytest.mark.parametrize(
    ("key", "setting", "status", "code", "said"),
    [
        (KEY, "key", 401, "wrong_key", "check `key` (env:WORKER_KEY)"),
        (KEY, "route_key", 401, "wrong_key", "check `route_key` (env:WORKER_KEY)"),
        (None, "route_key", 401, "no_key", "give `route_key`, which is not set"),
        (KEY, "key", 403, "", "check `key` (env:WORKER_KEY), and who may use this address"),
        (
            KEY,
            "key",
            403,
            "foreign_host",
            "add the host to `front_door.allowed_hosts` of the Stoker that answers there",
        ),
    ],
)
def test_a_refusal_names_what_to_change(key: Secret | None, setting: str, status: int, code: str, said: str) -> None:
    answer = HttpResponse(status, json.dumps({"error": {"code": code}}).encode(), {})
    assert wrong_models(answer, "qwen", key_advice(key, setting)).endswith(f"; {said}")
