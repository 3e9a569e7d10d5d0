"""To which session a request belongs. Memory is bounded, and nothing of content is kept.

The first of these that a request has names its session, within its key:

1. a header of SESSION_HEADERS; one of PARENT_HEADERS says whose subagent it is
2. `metadata.user_id`   3. `prompt_cache_key`   4. `conversation`
5. its prompt: it begins with the whole of an earlier one. Looked for only where models share a slot: see `of_prompt`
6. otherwise it stands alone

What `previous_response_id` refers to is put in front of the prompt, so 5 finds it.
"""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from typing import Final

from stoker.domain.prompt_chain import PromptChain
from stoker.domain.session import PROMPT, Session
from stoker.request.codec.body_fields import BodyFields

SESSION_HEADERS: Final = (
    b"x-stoker-session", b"session_id", b"session-id", b"x-session-id", b"x-session-affinity",
    b"x-claude-code-session-id", b"conversation_id", b"x-conversation-id",
)  # fmt: skip
PARENT_HEADERS: Final = (b"x-stoker-parent-session", b"x-parent-session-id")
ANY_SESSION_HEADER: Final = frozenset(SESSION_HEADERS)
MOST: Final = 4096
"""Sessions that are known by name, and as many by their prompts. If there are more, the key with the most of them loses
the one whose last request came longest ago.
"""


class Sessions:
    """Of all keys."""

    def __init__(self) -> None:
        self._named = _Known()
        self._prompted = _Known()
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
        last = chain.hashes[-1]
        session = None
        for hash in reversed(chain.hashes):
            if session := self._prompted.pop(key, hash):
                break
        if session is None:
            session = Session(self._id(key, PROMPT, str(last).encode()), key, PROMPT)
        self._prompted.put(key, last, session)
        return session

    def latest(self, most: int) -> list[Session]:
        """The last ones to ask, the latest first; those of which a request is under way before all others."""
        found = [one for one in (*self._named.latest(most), *self._prompted.latest(most)) if one.began_at is not None]
        return sorted(found, key=lambda one: -math.inf if one.ended_at is None else -one.ended_at)[:most]

    def _find(self, key: str, kind: str, text: bytes, source: str = "", parent: Session | None = None) -> Session:
        id = self._id(key, kind, text)
        session = self._named.pop(key, id) or Session(id, key, source, parent)
        self._named.put(key, id, session)
        return session

    def _id(self, key: str, kind: str, text: bytes) -> str:
        named = b"\0".join((key.encode("utf-8", "replace"), kind.encode(), text))
        return blake2b(named, digest_size=6, key=self._secret).hexdigest()


class _Known:
    """Sessions by what they are known by, of each key apart. What the scheduler knows of one that is dropped here, it
    forgets by itself.
    """

    def __init__(self) -> None:
        self._of_keys: dict[str, OrderedDict[str | int, Session]] = {}
        self._count = 0

    def pop(self, key: str, name: str | int) -> Session | None:
        own = self._of_keys.get(key)
        session = None if own is None else own.pop(name, None)
        self._count -= session is not None
        return session

    def put(self, key: str, name: str | int, session: Session) -> None:
        """The last one of its key. `name` is not known yet."""
        own = self._of_keys.setdefault(key, OrderedDict())
        self._count += name not in own
        own[name] = session
        if self._count > MOST:
            largest = max(self._of_keys.values(), key=len)
            largest.popitem(last=False)
            self._count -= 1
            if len(self._of_keys) > MOST:
                self._of_keys = {key: own for key, own in self._of_keys.items() if own}

    def latest(self, most: int) -> Iterator[Session]:
        for own in self._of_keys.values():
            yield from islice(reversed(own.values()), most)
