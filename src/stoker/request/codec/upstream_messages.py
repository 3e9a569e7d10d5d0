"""An engine's own error messages, made safe for clients: without secrets, and shortened."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import msgspec

from stoker.domain.errors import StokerError
from stoker.request.codec.tolerant_json import NOT_JSON

MOST = 2048
"""Bytes of UTF-8 that the client gets."""
_MOST_READ = 64 * 1024
"""Bytes or characters that are examined to make them."""
_MOST_LEARNED = 4096
_PIECE = 64 * 1024
"""Characters that are searched at once."""
HINT = "; see the serve's log"
"""The end of a message from Stoker that gives no reason."""
_NAMES = ("error", "message", "detail", "msg", "error_message", "reason", "title")
_ASIDE = re.compile(r"<(script|style)\b", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_HTML = re.compile(r"\s*<(?:!doctype|html|head|body|h1|p|div|center)\b", re.IGNORECASE)
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_BLANKS = re.compile(r"[ \t\r\n]+")


def reason_of(body: bytes) -> str:
    """The message in an error reply's body, in any of the usual forms; empty if there is none. It may hold secrets.

    1. JSON with a message: see `message_of`   2. other JSON: its text   3. a web page: its text   4. plain text
    """
    try:
        found = msgspec.json.decode(body)
    except NOT_JSON:
        text = body[:_MOST_READ].decode("utf-8", "replace")
        if _HTML.match(text):
            return _TAG.sub(" ", _shown(text)).strip()  # 3
        return text.strip()  # 4
    if message := message_of(found):
        return message  # 1
    return json.dumps(found, ensure_ascii=False)[:_MOST_READ] if found else ""  # 2


def _shown(page: str) -> str:
    parts, at = [], 0
    while (aside := _ASIDE.search(page, at)) is not None:
        parts.append(page[at : aside.start()])
        end = page.find(f"</{aside[1]}", aside.end())
        at = end if end >= 0 else len(page)
    return "".join([*parts, page[at:]])


def message_of(found: Any, depth: int = 4) -> str:
    """The message in OpenAI's and Anthropic's `error.message`, Ollama's `error`, FastAPI's `detail` (a text, or a list
    with `msg`), or in a similar field of other servers.
    """
    if isinstance(found, str):
        return found[:_MOST_READ]
    if isinstance(found, list):
        found = found[0] if found else None
    if not isinstance(found, dict) or not depth:
        return ""
    texts = (message_of(found.get(name), depth - 1) for name in _NAMES)
    return next((text for text in texts if text), "")


class UpstreamMessages:
    """Decides what clients get of a serve's own messages. Call `add_secret` before a serve could repeat the secret."""

    def __init__(self, shows_messages: bool = True, secrets: Iterable[str] = ()) -> None:
        self.shows_messages = shows_messages
        self._configured = frozenset(filter(None, secrets))
        self._learned: dict[str, None] = {}
        self._changes = 0
        self._made: tuple[int, re.Pattern[str], int] | None = None
        """The changes that are in the pattern, the pattern, and its longest text: other threads redact, too."""

    def configure(self, shows_messages: bool, secrets: Iterable[str]) -> None:
        """Replace the configuration. Requests under way may still repeat an old secret, so those stay secret."""
        self.shows_messages = shows_messages
        fresh = frozenset(filter(None, secrets))
        old, self._configured = self._configured - fresh, fresh
        self._changes += 1
        for secret in old:
            self.add_secret(secret)

    def add_secret(self, secret: str) -> None:
        """Hides `secret` from clients. If there are too many, the oldest are forgotten, but never a configured one."""
        if secret and secret not in self._learned and secret not in self._configured:
            if len(self._learned) >= _MOST_LEARNED:
                del self._learned[next(iter(self._learned))]
            self._learned[secret] = None
            self._changes += 1

    def clean(self, text: str) -> str:
        """The text without control characters and secrets, in one line of at most MOST bytes."""
        text = _BLANKS.sub(" ", text[:_MOST_READ])
        text = self.redacted(_CONTROL.sub("", text)).strip()
        raw = text.encode("utf-8", "replace")
        return text if len(raw) <= MOST else raw[: MOST - 3].decode("utf-8", "ignore") + "..."

    def is_safe(self, text: str) -> bool:
        return self.redacted(text) == text

    def for_client(self, error: StokerError) -> StokerError:
        """The error as the client may have it.

        1. the client needs the serve's message to correct its request: that message, cleaned
        2. the serve gave a reason, and reasons are shown: the reason, cleaned
        3. anything else: Stoker's own message
        """
        said, error.upstream_message = error.upstream_message, ""
        if not self.is_safe(error.code):  # some codes are the serve's, too
            error.code = type(error).code
        if error.source == "upstream":
            error.message = self.clean(error.message)  # 1
        elif self.shows_messages and (shown := self.clean(said)):
            error.message = shown  # 2
            error.source = "upstream"
        return error

    def redacted(self, text: str) -> str:
        """The text without secrets that Stoker knows."""
        if not self._configured and not self._learned:
            return text
        made = self._made
        if made is None or made[0] != self._changes:
            changes = self._changes
            secrets = (*self._configured, *self._learned)
            spelt = {form for secret in secrets for form in (secret, quote(secret, safe=""), _escaped(secret))}
            longest = sorted(spelt, key=len, reverse=True)
            made = self._made = changes, re.compile("|".join(map(re.escape, longest))), len(longest[0])
        _, pattern, length = made
        return replaced(pattern, "[redacted]", text, length)


def replaced(pattern: re.Pattern[str], template: str, text: str, longest: int) -> str:
    """As `pattern.sub(template, text)`, by `next_match`."""
    pieces: list[str] = []
    at = 0
    while (match := next_match(pattern, text, at, longest)) is not None:
        pieces += [text[at : match.start()], match.expand(template)]
        at = match.end()
    return "".join([*pieces, text[at:]]) if pieces else text


def next_match(pattern: re.Pattern[str], text: str, at: int, longest: int) -> re.Match[str] | None:
    """As `pattern.search(text, at)`, but other threads can run meanwhile, however long the text is: `re` keeps the lock
    of the interpreter during one search. `longest`: characters that decide whether the pattern matches.
    """
    while at < len(text):
        end = at + _PIECE
        match = pattern.search(text, at, end + longest)
        if match is not None and match.start() < end:
            return match if match.end() < end else pattern.match(text, match.start())
        at = end
    return None


def _escaped(secret: str) -> str:
    return json.dumps(secret)[1:-1].replace("/", "\\/")
