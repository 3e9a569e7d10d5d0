"""Every gap between two dialects: what translation does there, and whether it loses something.

Readers and writers report a gap by its code. `LOSSY` gaps are reported to the client, in `x-stoker-translation:
lossy:CODE`, and recorded in the decision; a serve with strict translation refuses the request instead. `LOSSLESS` gaps
change only the form, and are not reported. docs/reference/translation.md shows this table.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.domain.errors import ClientError


class DialectGap(NamedTuple):
    """`at`: the dialects and directions that have it; `what` translation does; `why` it cannot be avoided."""

    at: str
    what: str
    why: str


LOSSY: dict[str, DialectGap] = {
    # -- what is said
    "cache_control": DialectGap(
        "messages, chat in", "dropped", "marks of what to cache are for one vendor alone; local engines cache by prefix"
    ),
    "citations": DialectGap("messages in, out", "dropped", "no other dialect can say where a text is quoted from"),
    "annotations": DialectGap("chat, responses out", "dropped", "as citations"),
    "name": DialectGap("chat in", "the participant's name is dropped", "only chat names participants"),
    "order": DialectGap(
        "messages, responses in", "text behind a call is moved before it", "a chat message has one text, then its calls"
    ),
    "result_order": DialectGap(
        "chat, messages in",
        "text before results is moved behind them",
        "results come first in Messages, and right behind their calls in chat",
    ),
    "result_error": DialectGap(
        "messages in",
        "the result's text begins with `[tool error] `",
        "chat has no field for it; on the way back the mark becomes the field again",
    ),
    "result_image": DialectGap(
        "messages, responses in",
        "images and files follow in a user message that names the call",
        "a chat tool message holds text alone",
    ),
    "result_orphan": DialectGap("any in", "becomes text of the user", "a result needs its call"),
    "result_missing": DialectGap("any in", "an error result is put in", "a call needs its result"),
    "system_turn": DialectGap(
        "any in",
        "becomes text of the user's turn, in its place",
        "the model's template has no "
        "system turn there, and moving it to the front changes the prompt's beginning each time",
    ),
    "thinking": DialectGap("any in, out", "dropped", "the target has no field for it"),
    "thinking_unsigned": DialectGap(
        "any in, Anthropic", "dropped", "Anthropic takes only thinking that it signed itself"
    ),
    "thinking_altered": DialectGap(
        "messages, responses in", "dropped", "its signature is ours and does not fit the text"
    ),
    "thinking_redacted": DialectGap("messages in, out", "dropped", "only its maker can read it"),
    "signature": DialectGap(
        "messages, responses in, out", "dropped", "chat has no field for it, and only its maker knows it"
    ),
    "refusal": DialectGap(
        "chat, responses in, out", "becomes text", "Messages and templates of local models have no place for it"
    ),
    "detail": DialectGap("chat, responses in", "dropped", "Messages looks at images one way"),
    "document": DialectGap("messages, responses in", "its text is put in", "the target takes no documents"),
    "document_title": DialectGap("messages in", "dropped", "the target has no field for it"),
    "search_result": DialectGap("messages in", "becomes text", "only Messages has such blocks"),
    "tool_reference": DialectGap(
        "messages in", "becomes a text that names the tool", "only Messages has tools that are found by a search"
    ),
    "foreign_block": DialectGap(
        "messages, responses in", "dropped", "a block that only its own vendor can run or read"
    ),
    "context": DialectGap("ollama in", "dropped", "the tokens of an earlier answer mean something to Ollama alone"),
    "call": DialectGap("completions, ollama out", "dropped", "text completions hold text alone"),
    # -- tools
    "server_tools": DialectGap("any in", "dropped", "tools that the vendor runs exist nowhere else"),
    "user_location": DialectGap(
        "messages, responses, chat in", "dropped", "search services that Stoker asks are not told where users are"
    ),
    "tool_fields": DialectGap(
        "messages, responses in",
        "dropped",
        "`defer_loading`, `input_examples`, `allowed_callers`, `eager_input_streaming` exist in one dialect",
    ),
    "custom_tool": DialectGap(
        "responses, chat in",
        "becomes a function with one argument `input`",
        "only OpenAI's models take tools without a schema",
    ),
    "grammar": DialectGap("responses, chat in", "dropped", "a function's argument has a schema, not a grammar"),
    "strict_schema": DialectGap("any in", "dropped", "the target does not hold arguments to their schema"),
    "allowed_tools": DialectGap(
        "chat, responses in", "the other tools are left out", "the target has no list of allowed tools"
    ),
    "tool_choice": DialectGap("any in", "becomes `required`", "the target cannot be made to call that tool"),
    "arguments": DialectGap("any in, out", "kept under `_raw`", "engines want an object, and this is none"),
    "truncated_call": DialectGap("any out", "given as far as it came", "the answer ended inside the call's arguments"),
    # -- settings
    "reasoning": DialectGap("any in", "dropped", "the target cannot be told how much to think"),
    "thinking_turn": DialectGap(
        "any in, Anthropic",
        "thinking is switched off, or left to the model, until the tool turn has ended",
        "Anthropic wants such a turn to begin with its own thinking, and another model began it",
    ),
    "max_tokens": DialectGap(
        "any in, Claude", "lowered to what the model can give", "the model refuses a higher limit"
    ),
    "effort": DialectGap("any in", "becomes the nearest one that the target knows, or a budget", "each has its own"),
    "budget": DialectGap("messages in", "becomes an effort", "only Messages counts tokens of thinking"),
    "display": DialectGap("messages, responses in", "dropped", "the target always shows its thinking, or never"),
    "temperature": DialectGap(
        "chat, responses in", "lowered to 1, or dropped", "Messages allows 0 to 1, Anthropic's newest models none"
    ),
    "stop": DialectGap("any in", "dropped, or the first four kept", "Responses has no stop strings, OpenAI takes four"),
    "stop_string": DialectGap("messages out", "which stop string came is dropped", "only Messages tells"),
    "stop_details": DialectGap("messages out", "dropped", "only Messages explains a refusal"),
    "json_object": DialectGap("chat, responses in", "asked for in words", "Messages knows schemas only"),
    "format_fields": DialectGap(
        "chat, responses in",
        "the schema's description, and that it is not strict, are dropped",
        "Messages knows the schema alone, and always holds the answer to it",
    ),
    "format": DialectGap("any in", "dropped", "the target cannot be held to a schema"),
    "metadata": DialectGap("any in", "dropped", "Messages takes a user id alone"),
    "include": DialectGap("responses in", "dropped", "it asks for what only OpenAI has"),
    "verbosity": DialectGap("chat, responses in", "dropped", "the target has no such setting"),
    "service_tier": DialectGap("any in", "dropped", "each vendor has tiers of its own"),
    "store": DialectGap("chat, responses in", "dropped", "nothing is stored elsewhere"),
    "parallel_calls": DialectGap("any in", "dropped", "without tools there is nothing to hold back"),
    "n": DialectGap("chat in", "one answer", "the target gives one answer"),
    "prefill": DialectGap("messages in", "the answer begins anew", "the target cannot go on with a begun answer"),
    "audio": DialectGap("chat in, out", "dropped", "the target has no audio"),
    "answer_image": DialectGap("chat, responses out", "dropped", "other dialects have no place for images in answers"),
    **{
        name: DialectGap("any in", "dropped", "the target has no such setting")
        for name in (
            "top_k",
            "min_p",
            "seed",
            "frequency_penalty",
            "presence_penalty",
            "repetition_penalty",
            "logit_bias",
            "logprobs",
            "top_logprobs",
            "prediction",
            "prompt_cache_key",
            "safety_identifier",
            "chat_template_kwargs",
            "user",
            "top_p",
        )
    },
    "keep_alive": DialectGap("ollama in", "ignored", "Stoker decides what stays loaded, for all clients"),
    "stop_reason": DialectGap("ollama out", "becomes `stop`", "Ollama has no word for an answer that was refused"),
    "unknown_field": DialectGap("any in", "dropped", "nobody knows what it means to another engine"),
}

LOSSLESS: dict[str, DialectGap] = {
    "billing_header": DialectGap(
        "messages in, local",
        "Claude Code's block that differs with each request is left out",
        "it defeats the prefix cache, and local engines do not bill",
    ),
    "system_joined": DialectGap(
        "messages in", "its blocks become one text, a blank line between", "templates of local models take one text"
    ),
    "roles_merged": DialectGap("chat in", "turns of one role in a row become one", "Messages merges them itself"),
    "developer": DialectGap("chat, responses in", "`developer` is read as `system`", "the same thing by two names"),
    "name_shortened": DialectGap(
        "any in",
        "a long name becomes its beginning and a hash, and the long one again in the answer",
        "chat allows 64 characters",
    ),
    "id_rewritten": DialectGap(
        "any in, out",
        "a call's id is spelt so that the target takes it, and restored",
        "each dialect has its own letters for ids",
    ),
    "user_shortened": DialectGap(
        "messages in, OpenAI",
        "a user's id of more than 64 letters becomes its hash",
        "OpenAI takes no longer ones, and Claude Code's has some 200",
    ),
    "empty_text": DialectGap("any in", "left out", "Messages refuses empty text"),
    "schema_typed": DialectGap("any in", "a schema without a type gets `object`", "arguments are an object"),
    "double_encoded": DialectGap(
        "any in, out", "unwrapped once", "some engines write arguments as a string in a string"
    ),
}


class Losses:
    """What a translation could not keep: the codes of what was lost, each once, in the order of first occurrence; and
    what was repaired.
    """

    __slots__ = ("codes", "repairs")

    def __init__(self) -> None:
        self.codes: dict[str, None] = {}
        self.repairs: dict[str, None] = {}

    def words(self) -> tuple[str, ...]:
        """What `x-stoker-translation` says of it."""
        return (*(f"repaired:{what}" for what in self.repairs), *(f"lossy:{code}" for code in self.codes))

    def update(self, other: Losses) -> None:
        self.codes.update(other.codes)
        self.repairs.update(other.repairs)

    def repair(self, what: str) -> None:
        """Notes that a part of the request, as it was, would have been refused. A strict translation allows that."""
        self.repairs[what] = None

    def add(self, code: str) -> None:
        """`code` is one of LOSSY."""
        self.codes[code] = None

    def refuse(self) -> None:
        """Raises ClientError 400 `would_lose` if anything was lost: what a strict translation does."""
        if self.codes:
            losses = "; ".join(f"{code}: {LOSSY[code].what}, since {LOSSY[code].why}" for code in self.codes)
            text = f"this serve's translation is strict, and the request would lose something: {losses}"
            raise ClientError(text, code="would_lose", param=next(iter(self.codes)))
