"""Is an answer in the form that was asked for? Under constrained decoding every single one is."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from stoker_lab.json_schema import schema_violation
from stoker_lab.preflight.check import (
    CheckContext,
    CheckResult,
    PreflightCheck,
    ask,
    failed,
    passed,
    quoted,
    run_concurrently,
)
from stoker_lab.requests.client import ModelClient


async def _schemas(client: ModelClient, ctx: CheckContext) -> CheckResult:
    forms = ctx.wording.forms

    def asked_for(at: int) -> dict[str, Any]:
        form = forms[at]
        wanted = {"name": form.name.replace("-", "_"), "strict": True, "schema": form.schema}
        return {"type": "json_schema", "json_schema": wanted}

    asks = [partial(ask, client, ctx, form.question, stream=stream, response_format=asked_for(at))
            for at, form in enumerate(forms) for stream in (False, True)]  # fmt: skip
    replies = await run_concurrently(ctx, asks)
    right = 0
    for at, one in enumerate(replies):
        form = forms[at // 2]
        try:
            value = json.loads(one.text)
        except ValueError:
            return failed("text", f"{form.name}: not JSON, but {quoted(one.text)}", passed=right, n=len(replies))
        if bad := schema_violation(value, form.schema):
            return failed("schema", f"{form.name}: {bad}; {quoted(one.text)}", passed=right, n=len(replies))
        right += 1
    return passed(f"{len(forms)} schemas kept, streamed and not", passed=right, n=len(replies))


def _takes_forms(ctx: CheckContext) -> str:
    refused = ctx.facts.refused_features.get("json_schema")
    return f"it refuses response_format: {refused}" if refused else ""


SCHEMA = (
    PreflightCheck(
        "json-schema",
        "five schemas are kept by every answer",
        "keywords that the five schemas do not use; whether values are true",
        _schemas,
        _takes_forms,
    ),
)
