"""Do letters beyond ASCII come through whole, streamed and not?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from stoker_lab.preflight import wire_flaws
from stoker_lab.preflight.check import (
    CheckContext,
    CheckResult,
    PreflightCheck,
    ask,
    chat_request,
    failed,
    not_applicable,
    passed,
    quoted,
    run_concurrently,
)
from stoker_lab.requests.client import ModelClient, ModelReply

TEXTS = ("Größe naïve façade Übermut", "Zürich 東京 Москва", "café 🙂 señor 👍🏽")


async def _letters(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """1. each event is whole UTF-8 by itself, in every answer of this run  2. the same streamed and not
    3. no letter is lost or spelled in another encoding"""
    asks = [partial(ask, client, ctx, ctx.wording.echo.format(words=text), stream=s)
            for text in TEXTS for s in (False, True)]  # fmt: skip
    replies = [*await run_concurrently(ctx, asks), *await _forced(client, ctx)]
    flaws = [flaw for one in replies if (flaw := wire_flaws.bytes_flaw(one))[0]]
    for why, sentence in [*flaws, *ctx.wire_flaws]:  # 1
        return failed(why, sentence, n=len(replies))
    beyond = sum(not one.text.isascii() for one in replies)
    for whole, flow in zip(replies[::2], replies[1::2], strict=True):
        if was_cut(flow.text, whole.text):  # 2
            return failed("cut", f"U+FFFD in a stream: {quoted(flow.text)}; not streamed {quoted(whole.text)}")
    for at, one in enumerate(replies[: 2 * len(TEXTS)]):
        if bad := mangled(TEXTS[at // 2], one.text):  # 3
            return failed(
                "mangled", f"{'streamed' if at % 2 else 'not streamed'}: {bad!r} in place of {TEXTS[at // 2]!r}"
            )
    if not beyond:
        return not_applicable("no answer held a letter beyond ASCII: the model wrote none when asked to")
    return passed(f"{beyond} of {len(replies)} answers with letters beyond ASCII, each event whole", n=len(replies))


async def _forced(client: ModelClient, ctx: CheckContext) -> Sequence[ModelReply]:
    """A form whose only value has such letters: what cannot repeat them has to write them. Empty: it is refused."""
    value = {"type": "string", "enum": [" ".join(TEXTS)]}
    schema = {"type": "object", "properties": {"text": value}, "required": ["text"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "letters", "strict": True, "schema": schema}}
    if "json_schema" in ctx.facts.refused_features:
        return ()
    asked = f"Answer in JSON: {json.dumps({'text': value['enum'][0]}, ensure_ascii=False)}"
    both = [await client.ask(chat_request(ctx, asked, stream=s, response_format=form)) for s in (False, True)]
    return both if all(one.timing.is_ok for one in both) else ()


def was_cut(flow: str, whole: str) -> bool:
    """Whether a letter of the whole answer is U+FFFD in the stream. Behind the place where two answers part, a model
    may write half a letter of its own."""
    at = flow.find("�")
    return at >= 0 and "�" not in whole and len(whole) > at and whole.startswith(flow[:at])


def mangled(wanted: str, text: str) -> str:
    """What stands in the text in place of the words beyond ASCII: their letters lost, `?`, or in another encoding."""
    if any(word in text for word in wanted.split() if not word.isascii()):
        return ""
    for word in wanted.split():
        if word.isascii() or not any(sign.isascii() for sign in word):
            continue
        for wrong in (
            word.encode("ascii", "ignore").decode(),
            word.encode("ascii", "replace").decode(),
            word.encode().decode("latin-1"),
            "".join(sign if sign.isascii() else "��" for sign in word),
            "".join(sign if sign.isascii() else "�" for sign in word),
        ):
            if wrong in text.split():
                return wrong
    return ""


LETTERS = (
    PreflightCheck(
        "unicode",
        "letters beyond ASCII come through, each event of a stream whole by itself",
        "letters that the model does not write when asked to (reads that cut a letter are legal)",
        _letters,
    ),
)
