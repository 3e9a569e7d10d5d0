"""Which dialect a serve is asked in.

1. it speaks the client's dialect well        -> that one: bytes pass through
2. it speaks others, which can be translated  -> the first of those, in the order that loses least (`instead`)
3. it speaks some, but only badly             -> one of those, the client's own first
4. it speaks no usable dialect                -> refused
"""

from __future__ import annotations

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.serve import Serve


def dialect_for(serve: Serve, asked: Dialect, path: str, spoken: frozenset[Dialect] | None = None) -> Dialect:
    """`spoken`: dialects that the serve was found to speak, if it was probed. Raises ClientError 400
    `dialect_not_spoken`.
    """
    spoken = serve.dialects if spoken is None else spoken
    avoided = serve.translation.always
    if asked in spoken and asked not in avoided:
        return asked  # 1
    wanted = [dialect for dialect in (asked, *asked.spec.instead) if dialect in spoken]
    for dialect in wanted:
        if dialect not in avoided:
            return dialect  # 2
    if wanted:
        return wanted[0]  # 3
    listed = ", ".join(sorted(spoken)) or "nothing"
    text = f"serve '{serve.name}' does not speak {asked.value} ({path}), nor a dialect that it can be translated to; "
    raise ClientError(f"{text}it speaks {listed}", code="dialect_not_spoken", param="model")  # 4
