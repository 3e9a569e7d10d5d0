"""Thinking across dialects: signatures, sealed items, and how much of it.

Messages wants every block of thinking signed, and Anthropic takes back only what it signed itself. Stoker signs what a
local model thought (HMAC-SHA256 over the text and the model's name, base64, behind `stoker1.`), so that it knows its
own again: such blocks go back to local models and never to Anthropic. In Responses the same travels in
`encrypted_content`, with the text, since clients drop the text (https://github.com/router-for-me/CLIProxyAPI/issues/3451).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re

from msgspec.json import decode

from stoker.domain.dialect import Dialect
from stoker.domain.prompt import Reasoning
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import encode
from stoker.request.translate.neutral.model_families import nearest_effort

OURS = "stoker1."
"""What every signature of ours begins with."""
_FERNET = "gAAAA"
"""What OpenAI encrypted begins with."""
ANTHROPIC, OPENAI = "anthropic", "openai"
_MAKERS = {Dialect.MESSAGES: ANTHROPIC, Dialect.RESPONSES: OPENAI}
_FORM = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\Z")
"""What vLLM puts in place of a signature: a UUID."""
_SEALED = "sealed\0"
"""What a seal's signature is over begins with: what a model thought is never taken for a seal."""
_EFFORTS = ((2048, "low"), (8192, "medium"), (24576, "high"), (49152, "xhigh"))
_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 24576, "xhigh": 49152, "max": 65536}
_CLAUDE_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}
_OPENAI_EFFORTS = {"max": "xhigh"}


def maker_of(signature: str, dialect: Dialect) -> str:
    """The vendor that signed or encrypted a model's thinking, and alone takes it back: by the signature's form, else by
    the dialect in which it came. Empty: nobody, or Stoker itself.
    """
    if not signature or signature.startswith(OURS) or _FORM.match(signature):
        return ""
    return OPENAI if signature.startswith(_FERNET) else _MAKERS.get(dialect, "")


def note_signature(signature: str, losses: Losses) -> None:
    """In a dialect that has no place for it."""
    if signature and not signature.startswith(OURS):
        losses.add("signature")


def vendor_of(traits: Capabilities) -> str:
    """The vendor whose signatures a serve checks; empty: it checks none."""
    if traits.dialect is Dialect.RESPONSES:
        return "" if traits.local else OPENAI
    return ANTHROPIC if traits.checks_signatures else ""


class ThinkingSigner:
    """Signs with the first of its keys and knows what any of them signed."""

    __slots__ = ("_keys",)

    def __init__(self, keys: tuple[bytes, ...]) -> None:
        self._keys = keys

    def begin(self, model: str) -> Signature:
        """A signature over text that comes in pieces."""
        return Signature(hmac.new(self._keys[0], model.encode("utf-8", "replace") + b"\0", hashlib.sha256))

    def sign(self, model: str, text: str) -> str:
        signature = self.begin(model)
        signature.update(text)
        return signature.finish(model)

    def fits(self, signature: str, text: str) -> bool:
        """Whether we signed this text. Constant time in what is secret."""
        model, _, mac = signature.removeprefix(OURS).rpartition(".")
        name = _unspell(model)
        if name is None:
            return False
        given = mac.encode("utf-8", "replace")
        return any(hmac.compare_digest(self._mac(key, name, text), given) for key in self._keys)

    def _mac(self, key: bytes, model: bytes, text: str) -> bytes:
        made = hmac.new(key, model + b"\0" + text.encode("utf-8", "replace"), hashlib.sha256)
        return base64.urlsafe_b64encode(made.digest())

    def seal(self, model: str, text: str, signature: str = "", redacted: str = "", maker: str = "") -> str:
        """A reasoning item's `encrypted_content`, or the signature of thinking that another vendor signed: what has to
        come back, who made it, and that nobody changed it.
        """
        kept = {"text": text, "signature": signature, "redacted": redacted, "maker": maker}
        payload = base64.urlsafe_b64encode(encode({name: value for name, value in kept.items() if value})).decode()
        return f"{self.sign(model, _SEALED + payload)}.{payload}"

    def open(self, sealed: str) -> dict[str, str] | None:
        """`text`, `signature`, `redacted`, `maker` of what `seal` made; None: not ours, or changed."""
        if not sealed.startswith(OURS):
            return None
        signature, _, payload = sealed.rpartition(".")
        if not self.fits(signature, _SEALED + payload):
            return None
        found: dict[str, str] = decode(base64.urlsafe_b64decode(payload))  # as it was written, since it fits
        return found


class Signature:
    """One signature under way."""

    __slots__ = ("_mac",)

    def __init__(self, mac: hmac.HMAC) -> None:
        self._mac = mac

    def update(self, text: str) -> None:
        self._mac.update(text.encode("utf-8", "replace"))

    def finish(self, model: str) -> str:
        spelt = base64.urlsafe_b64encode(model.encode("utf-8", "replace")).decode()
        return f"{OURS}{spelt}.{base64.urlsafe_b64encode(self._mac.digest()).decode()}"


def _unspell(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None


def is_on(reasoning: Reasoning) -> bool | None:
    """Whether thinking is asked for; None: it is not said."""
    if reasoning.enabled is not None:
        return reasoning.enabled
    if reasoning.effort is not None:
        return reasoning.effort != "none"
    return None


def effort_of(reasoning: Reasoning, efforts: tuple[str, ...] | None = None) -> str | None:
    """As OpenAI says it. A budget becomes the nearest effort that is not below it. `efforts`: those that the model
    takes; None: any.
    """
    effort = None
    if reasoning.enabled is False:
        effort = "none"
    elif reasoning.effort is not None:
        effort = _OPENAI_EFFORTS.get(reasoning.effort, reasoning.effort)
    elif reasoning.budget is not None:
        effort = effort_for(reasoning.budget)
    return None if effort is None else nearest_effort(effort, efforts)


def effort_for(budget: int) -> str:
    """The lowest effort that stands for at least this budget."""
    return next((effort for most, effort in _EFFORTS if budget <= most), "xhigh")


def claude_effort_of(reasoning: Reasoning) -> str | None:
    """As `output_config.effort` says it; None: it is not said, or thinking is off."""
    return None if reasoning.effort is None else _CLAUDE_EFFORTS.get(reasoning.effort)


def note_effort(reasoning: Reasoning, said: str | None, losses: Losses) -> None:
    """`said`: the effort that was written in its place; None: none was."""
    if reasoning.effort is not None and reasoning.effort != said and is_on(reasoning) is not False:
        losses.add("effort")


def budget_of(effort: str) -> int:
    """Tokens of thinking that an effort stands for, where a model has no efforts."""
    return _BUDGETS.get(effort, 8192)
