"""What one call of a serve used, for limits, money and records, if the serve did not count it to the end.

1. the answer is complete, and the serve counted it    -> its counts: see `UpstreamClient.release`
2. audio and images; a path without a prompt           -> its counts, if any: nothing is estimated
   an engine's own path                                -> as 4, by the size of the request and the events that came
3. nothing of an answer came (refused, failed, ended by Stoker), and the client is still there -> as 2
4. an answer, or its beginning, or the client left      -> its counts, and what they lack:
   the prompt      as Stoker had it counted before the call, else by the size of the request
   the answer      by its pieces, or its length, as far as it came; of one that broke off at least that, because
                   what a serve counts at the beginning is not the end
   a whole answer whose client left before it came -> what can have been written by then, at ASSUMED_SPEED
"""

from __future__ import annotations

from stoker.access.quota import ASSUMED_OUTPUT
from stoker.domain.task import BYTES_PER_TOKEN
from stoker.domain.usage import ServeUsage
from stoker.exchange.request_context import RequestContext
from stoker.request.relay.relay import Relay

ASSUMED_SPEED = 100
"""Tokens per second of an answer that nobody saw."""


def estimated(serve: str, context: RequestContext, relay: Relay) -> ServeUsage:
    """What the call used. `relay`: it is over."""
    usage, request = relay.usage, context.request
    counted = ServeUsage(serve, usage.input, usage.output, usage.cached, usage.reasoning, 0.0, usage.cache_written)
    if request is None and context.passed_on is not None and (relay.has_begun_answer or context.is_abandoned):
        counted.input = usage.input or context.passed_on // BYTES_PER_TOKEN
        counted.output = usage.output or relay.tokens_so_far()
        counted.is_estimated = True
        return counted  # 2
    if request is None or not request.endpoint.has_tokens:
        return counted  # 2
    is_whole = relay.is_complete or relay.has_sent_end
    has_left = context.is_abandoned and not is_whole and relay.was_sent and relay.upstream_status in (0, 200)
    if not (relay.has_begun_answer or has_left):
        return counted  # 3
    if not counted.input:  # 4
        tokens = context.token_count[1] if request.tokens is None else request.tokens
        counted.input = request.prompt_bytes // BYTES_PER_TOKEN if tokens is None else tokens
    if request.endpoint.dialect.spec.answers:
        output = relay.tokens_so_far()
        if has_left and not output and not request.fields.stream:
            budget = request.fields.output_budget()
            written = int(relay.seconds_since_sent * ASSUMED_SPEED)
            output = min(ASSUMED_OUTPUT if budget is None else max(budget, 0), written)
        counted.output = (usage.output or output) if is_whole else max(usage.output or 0, output)
    counted.is_estimated = counted.input != usage.input or counted.output != usage.output
    return counted
