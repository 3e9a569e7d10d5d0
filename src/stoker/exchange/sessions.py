"""To which session a request belongs. Memory is bounded, and nothing of content is kept.

The first of these that a request has names its session, within its key:

1. a header of SESSION_HEADERS; one of PARENT_HEADERS says whose subagent it is
2. `metadata.user_id`   3. `prompt_cache_key`   4. `conversation`
5. its prompt: it begins with the whole of an earlier one. Looked for only where models share a slot: see `of_prompt`
6. otherwise it stands alone

What `previous_response_id` refers to is put in front of the prompt, so 5 finds it.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from stoker.domain.prompt_chain import PromptChain
from stoker.domain.session import Session
from stoker.request.codec.body_fields import BodyFields

SESSION_HEADERS: Final = (
    b"x-stoker-session", b"session_id", b"session-id", b"x-session-id", b"x-session-affinity",
    b"x-claude-code-session-id", b"conversation_id", b"x-conversation-id",
)  # fmt: skip
PARENT_HEADERS: Final = (b"x-stoker-parent-session", b"x-parent-session-id")
ANY_SESSION_HEADER: Final = frozenset(SESSION_HEADERS)
MOST: Final = 4096
"""Sessions that are known. The one whose last request came longest ago is forgotten first."""


class Sessions:
    """Of all keys."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Session] = OrderedDict()
        self._by_prompt: OrderedDict[int, Session] = OrderedDict()
        """By the last hash of a session's last prompt."""
        self._secret = os.urandom(16)

    def of_request(self, headers: Mapping[bytes, bytes], fields: BodyFields, key: str) -> Session | None:
        """The session that a request names; None: it names none."""
        if not ANY_SESSION_HEADER.isdisjoint(headers):
            name = next(name for name in SESSION_HEADERS if name in headers)
            above = next((headers[one] for one in PARENT_HEADERS if one in headers), None)
            parent = None if above in (None, headers[name]) else self._find(key, "", above or b"")
            return self._find(key, "", headers[name], name.decode(), parent)
        if fields.session is not None:
            source, text = fields.session
            return self._find(key, source, text.encode("utf-8", "replace"), source)
        return None

    def of_prompt(self, chain: PromptChain, key: str) -> Session:
        """The session whose last prompt a prompt begins with; else a new one."""
        session = None
        for hash in reversed(chain.hashes):
            if session := self._by_prompt.pop(hash, None):
                break
        if session is None:
            session = self._find(key, "prompt", str(chain.hashes[-1]).encode(), "prompt")
        elif session.id in self._known:
            self._known.move_to_end(session.id)
        self._by_prompt[chain.hashes[-1]] = session
        while len(self._by_prompt) > MOST:
            self._by_prompt.popitem(last=False)
        return session

    def latest(self, most: int) -> list[Session]:
        """The last ones to ask, the latest first."""
        found: list[Session] = []
        for session in reversed(self._known.values()):
            if len(found) == most:
                break
            if session.began_at is not None:
                found.append(session)
        return found

    def _find(self, key: str, kind: str, text: bytes, source: str = "", parent: Session | None = None) -> Session:
        named = b"\0".join((key.encode("utf-8", "replace"), kind.encode(), text))
        id = blake2b(named, digest_size=6, key=self._secret).hexdigest()
        session = self._known.get(id)
        if session is None:
            session = self._known[id] = Session(id, key, source, parent)
            if len(self._known) > MOST:
                _, oldest = self._known.popitem(last=False)
                oldest.leave()
        else:
            self._known.move_to_end(id)
        return session
