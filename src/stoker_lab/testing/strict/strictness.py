"""Which rules apply to which path."""

from __future__ import annotations

from stoker_lab.testing.script.ask import ScriptedRequest
from stoker_lab.testing.script.record import RecordedRequest
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.strict import chat, messages
from stoker_lab.testing.strict.rules import StrictRequest, first

_MESSAGES, _COUNT = "/v1/messages", "/v1/messages/count_tokens"


def refusal(script: Script, path: str, request: RecordedRequest, ask: ScriptedRequest) -> str | None:
    """The message with which the API would refuse a request with 400."""
    if script.strict_messages and path in (_MESSAGES, _COUNT):
        return first(messages.RULES, StrictRequest(ask.document, request, is_count=path == _COUNT))
    if script.strict_chat and path == "/v1/chat/completions":
        return first(chat.RULES, StrictRequest(ask.document, request))
    return None
