"""A failed check and its cause key -> the likely cause, and the fix. `""` stands for whatever else was seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Cause(NamedTuple):
    cause: str
    fix: str


_TEMPLATE = "name the model's own template with chat_template, or take a GGUF file or repository that holds it"
_PARSER = "the tool parser does not match the model, or is off"
_PARSER_FIX = "set tool_parser for this model (vLLM, SGLang); on llama.cpp take the model's own chat template"
_WEIGHTS = "damaged or crushed weights, a too small quantisation, or a wrong template"
_WEIGHTS_FIX = "check the file's hash, try a larger quantisation, compare with another engine or an older version"
_KERNEL = "a fault of kernel, driver, KV cache quantisation or sampling"
_KERNEL_FIX = "try kv_cache_type f16 and another attention_backend; go back one engine or driver version"
_EOS = "the end token is missing from the stop ids, in the GGUF file or in generation_config.json"
_EOS_FIX = "add the end-of-turn id to the stop ids (GGUF: tokenizer.ggml.eot_token_id), or use a newer conversion"
_GRAMMAR = "the grammar backend is off, or response_format is dropped on the way"
_GRAMMAR_FIX = "switch structured output on (vLLM, SGLang: grammar backend), and check whether a proxy drops the field"
_CUT = "something cuts long prompts silently: a context shift, a proxy, or a smaller context than advertised"
_CUT_FIX = "switch context shift off and set the context that the serve really has"
_REASONING = "the reasoning parser is off or does not match the model"
_REASONING_FIX = "set reasoning_parser for this model"
_SLOTS = "answers are mixed up between slots: KV cache, prefix cache, or a proxy that shares connections"
_SLOTS_FIX = "switch prefix_caching off and test again; do not serve users with it"
_COUNTS = "the engine, or a proxy before it, counts wrongly"
_COUNTS_FIX = "ask the engine directly (--base-url); bills and context checks rest on these counts"
_FRAMES = "the stream is broken by the engine or by a proxy that rewrites it"
_FRAMES_FIX = "ask the engine directly (--base-url); if it is whole there, the proxy is at fault"

_ROUTED = "something else answers under this name: a proxy, a fallback, or a pool of several backends"
_ROUTED_FIX = "ask each backend directly (--base-url); take out the one that has another model, or give it another name"
_HIDDEN = "thoughts are written and counted, but dropped on the way: by the reasoning parser, or by a proxy"
_MENDED = "clients that do not repair this lose the call or run a wrong one; Stoker repairs it, others do not"

CAUSES: Mapping[tuple[str, str], Cause] = {
    ("model", "id"): Cause("another model is loaded, or its name is another one", "set served_name to what it shows"),
    ("model", "context"): Cause(
        "it was started with less context than configured", "raise the engine's context, or lower the serve's"
    ),
    ("model", "other"): Cause(_ROUTED, _ROUTED_FIX),
    ("model", "health"): Cause("it is still loading, or broken", "look at its log: stoker serves logs NAME"),
    ("prompt-tokens", "none"): Cause(_COUNTS, _COUNTS_FIX),
    ("prompt-tokens", "no-system"): Cause("the system turn is dropped by the template or on the way", _TEMPLATE),
    ("prompt-tokens", "no-tools"): Cause(
        "tools are not rendered: the template knows none, or they are dropped", _TEMPLATE
    ),
    ("prompt-tokens", "no-result"): Cause("calls or results in the history are dropped", _TEMPLATE),
    ("prompt-tokens", "changed"): Cause(
        "template, tokenizer or image preprocessing changed since it was recorded", _TEMPLATE
    ),
    ("prompt-tokens", ""): Cause("the prompt is rewritten on the way, or counted wrongly", _COUNTS_FIX),
    ("template", "bos"): Cause(
        "the template writes the beginning of sequence, and the tokenizer adds another",
        "take it out of the template, or set add_bos_token to false",
    ),
    ("template", "system"): Cause("the template drops system turns", _TEMPLATE),
    ("template", "generation"): Cause(
        "the template does not open the answer (add_generation_prompt is ignored)", _TEMPLATE
    ),
    ("template", "foreign"): Cause("the template is another model's", _TEMPLATE),
    ("template", "count"): Cause(
        "chats go to another model than the one that renders, or are rewritten on the way", _ROUTED_FIX
    ),
    ("template", ""): Cause("the template is another model's, or turns are rewritten on the way", _TEMPLATE),
    ("template", "usage"): Cause(_COUNTS, _COUNTS_FIX),
    ("whole-prompt", "cut"): Cause(
        "something cuts long parts of a prompt: a proxy with a limit of its own, or the template",
        "ask the engine directly (--base-url); if the whole is read there, raise the proxy's limit",
    ),
    ("whole-prompt", ""): Cause("the template, or a proxy, drops turns of this kind", _TEMPLATE),
    ("tool-descriptions", ""): Cause(
        "the template writes names and parameters of tools only, or a proxy drops their descriptions", _TEMPLATE
    ),
    ("long-prompts", "other"): Cause(_ROUTED, _ROUTED_FIX),
    ("long-prompts", ""): Cause(
        "long prompts go to another model, with another tokenizer, or are changed or cut on the way", _ROUTED_FIX
    ),
    ("logprobs", "missing"): Cause(
        "log probabilities are dropped on the way, or the engine has none for this model",
        "ask the engine directly (--base-url); on vLLM see --max-logprobs",
    ),
    ("logprobs", ""): Cause(
        "log probabilities are made up or mixed up on the way, or by the engine", "ask the engine directly (--base-url)"
    ),
    ("prefix", ""): Cause(
        "a cache takes prompts that begin alike for equal",
        "let the cache know a request by all of it (messages, tools, parameters), or switch it off; if the engine "
        "itself does it, switch prefix_caching off",
    ),
    ("ids", ""): Cause(
        "a proxy or a cache gives each answer the same id", "ask the engine directly (--base-url) to see who does it"
    ),
    ("embeddings", "length"): Cause(
        "the engine does not normalise: clients that take the dot product for the cosine rank wrongly",
        "switch normalisation on (vLLM: --override-pooler-config), or normalise in each client",
    ),
    ("embeddings", "order"): Cause(
        "vectors of a batch are given to other texts", "ask for one text at a time until it is mended"
    ),
    ("embeddings", "count"): Cause("vectors of a batch are lost on the way", "ask the engine directly (--base-url)"),
    ("embeddings", "same"): Cause(
        "the vector of a text depends on the others in its batch, or on chance",
        "ask the engine directly (--base-url); try float32 and another attention_backend",
    ),
    ("embeddings", "far"): Cause(
        "wrong pooling, or a model that was not made for embeddings", "set the pooling that the model's card names"
    ),
    ("embeddings", ""): Cause(
        "broken vectors: another model answers, or they are changed on the way", "ask the engine directly (--base-url)"
    ),
    ("parts", ""): Cause(
        "only one text part of a message is read: by the template, or by a proxy that flattens messages",
        "ask the engine directly (--base-url); take a template that writes all parts, or send text as one string",
    ),
    ("echo", ""): Cause(_WEIGHTS, _WEIGHTS_FIX),
    ("corruption", "empty"): Cause(
        "answers are lost: a parser takes them for thinking, or the end token comes at once", _TEMPLATE
    ),
    ("corruption", "entropy"): Cause(_WEIGHTS, _WEIGHTS_FIX),
    ("corruption", "loop"): Cause(_WEIGHTS, _WEIGHTS_FIX),
    ("corruption", ""): Cause(_KERNEL, _KERNEL_FIX),
    ("eos", "reason"): Cause("the finish reason is wrong: an engine's or a proxy's fault", _FRAMES_FIX),
    ("eos", ""): Cause(_EOS, _EOS_FIX),
    ("special-tokens", ""): Cause("a stop id is missing, or special tokens are written out", _EOS_FIX),
    ("thinking", "always"): Cause("the template ignores enable_thinking", "take the model's own template"),
    ("thinking", "lost"): Cause(_HIDDEN, _REASONING_FIX),
    ("thinking", "copied"): Cause("thoughts are sent twice: in their own field and in the text", _REASONING_FIX),
    ("thinking", "after"): Cause("the reasoning parser sends thoughts behind the answer", _REASONING_FIX),
    ("thinking", "late"): Cause(_FRAMES, _FRAMES_FIX),
    ("thinking", ""): Cause(_REASONING, _REASONING_FIX),
    ("needle", "small"): Cause(
        "the context is smaller than the length to be proved", "raise the context, or lower --needle-ctx"
    ),
    ("needle", "truncated"): Cause(_CUT, _CUT_FIX),
    ("needle", "uncounted"): Cause(_COUNTS, _COUNTS_FIX),
    ("needle", ""): Cause(
        "RoPE scaling, sliding window or KV cache is wrong, the prompt is cut, or another model answers long prompts",
        f"{_KERNEL_FIX}; ask each backend directly (--base-url)",
    ),
    ("over-context", "near"): Cause("less context than advertised", "lower the serve's context to what the engine has"),
    ("over-context", "uncounted"): Cause(_COUNTS, _COUNTS_FIX),
    ("over-context", "status"): Cause(
        "the refusal is turned into a server error", "clients retry 5xx: pass on the engine's 400"
    ),
    ("over-context", ""): Cause(_CUT, _CUT_FIX),
    ("tool-single", "stream"): Cause(
        "the streaming tool parser loses or changes pieces", "update the engine, or set tool_parser"
    ),
    ("tool-single", "finish"): Cause("the finish reason is wrong after calls", _PARSER_FIX),
    ("tool-single", "double"): Cause(
        "arguments are encoded twice, by the engine or a proxy", "update the engine; ask it directly to see who does it"
    ),
    ("tool-single", "id"): Cause(
        "calls have no id of their own: results cannot be matched", "update the engine or its tool parser"
    ),
    ("tool-single", "constant"): Cause(
        "calls of all answers have the same id: in an agent's conversation results are given to the wrong call",
        "update the engine or its tool parser",
    ),
    ("tool-single", "object"): Cause(
        "arguments are sent as an object where text belongs", f"update the engine or its tool parser; {_MENDED}"
    ),
    ("tool-single", "null"): Cause(
        "arguments are left out where `{}` belongs", f"update the engine or its tool parser; {_MENDED}"
    ),
    ("tool-single", "index"): Cause(
        "the streaming tool parser numbers calls wrongly, or not at all",
        f"update the engine or its tool parser; {_MENDED}",
    ),
    ("tool-single", "ids"): Cause(
        "the streaming tool parser gives each piece of a call a new id",
        f"update the engine or its tool parser; {_MENDED}",
    ),
    ("tool-single", "values"): Cause(_WEIGHTS, _WEIGHTS_FIX),
    ("tool-single", ""): Cause(_PARSER, _PARSER_FIX),
    ("tool-batch", ""): Cause(
        "tool calls break under load: parser state shared between requests", "update the engine, or set parallel to 1"
    ),
    ("tool-parallel", "few"): Cause("the parser keeps only the first call, or parallel calls are off", _PARSER_FIX),
    ("tool-parallel", ""): Cause(_PARSER, _PARSER_FIX),
    ("tool-abstain", ""): Cause(
        "the template or the engine forces a call", "look for a forced tool_choice; take the model's own template"
    ),
    ("tool-required", ""): Cause("tool_choice is dropped on the way, or not constrained by the engine", _GRAMMAR_FIX),
    ("tool-named", ""): Cause(
        "a tool chosen by name is not constrained (llama.cpp takes it as auto)",
        "offer that tool alone with tool_choice required",
    ),
    ("tool-none", "called"): Cause(
        "tool_choice is dropped on the way, or the engine ignores none", "omit the tools if none is wanted"
    ),
    ("tool-none", ""): Cause(
        "tool_choice none still renders the tools into the prompt", "omit the tools if none is wanted"
    ),
    ("tool-bare", ""): Cause("arguments of a tool without parameters are lost", _PARSER_FIX),
    ("tool-round-trip", ""): Cause("results in the history are dropped or rendered wrongly", _TEMPLATE),
    ("json-schema", ""): Cause(_GRAMMAR, _GRAMMAR_FIX),
    ("stop", "left-in"): Cause("the marker is not cut off", "update the engine; cut it in the client meanwhile"),
    ("stop", ""): Cause(
        "stop strings are dropped on the way, or the engine ignores them",
        "ask the engine directly (--base-url) to see who drops them",
    ),
    ("usage", "counts"): Cause("tokens are counted wrongly, or the model writes hidden thoughts", _COUNTS_FIX),
    ("usage", ""): Cause(_COUNTS, _COUNTS_FIX),
    ("max-tokens", "ignored"): Cause(
        "max_tokens is dropped on the way, or the engine ignores it", "ask the engine directly (--base-url)"
    ),
    ("max-tokens", "capped"): Cause(
        "a proxy or an option of the engine caps answers below max_tokens",
        "look for a limit of output tokens in the engine's options and in proxies, and raise it",
    ),
    ("max-tokens", "reason"): Cause(
        "the finish reason is wrong where an answer is cut: clients take half an answer for a whole one", _FRAMES_FIX
    ),
    ("max-tokens", ""): Cause(_COUNTS, _COUNTS_FIX),
    ("chunks", "spaces"): Cause(
        "spaces are stripped from the pieces of a stream, by the detokenizer or by a proxy", _FRAMES_FIX
    ),
    ("chunks", "lost"): Cause("pieces of a stream are lost on the way", _FRAMES_FIX),
    ("chunks", "doubled"): Cause("pieces of a stream are sent twice", _FRAMES_FIX),
    ("chunks", "order"): Cause("pieces of a stream come in another order", _FRAMES_FIX),
    ("chunks", "after"): Cause("the reasoning parser sends thoughts behind the answer", _REASONING_FIX),
    ("chunks", ""): Cause(_FRAMES, _FRAMES_FIX),
    ("pace", ""): Cause(
        "something holds a stream back until it is whole: a proxy that buffers, or an engine that does not stream",
        "switch buffering off (nginx: proxy_buffering off; header X-Accel-Buffering: no); "
        "tokens per second measured behind it are wrong",
    ),
    ("unicode", "cut"): Cause(
        "characters are cut between the events of a stream: bytes are sent on before a character is whole",
        "update the engine or the proxy that splits events",
    ),
    ("unicode", "mangled"): Cause("text is read or written in another encoding than UTF-8", _FRAMES_FIX),
    ("unicode", ""): Cause(_FRAMES, _FRAMES_FIX),
    ("same-model", "changed"): Cause(
        "another model, another quantisation, or another version of the engine than was recorded",
        "compare file and engine with those of the recorded run; record a new baseline if the change was intended",
    ),
    ("same-model", "answers"): Cause(_ROUTED, _ROUTED_FIX),
    ("same-model", ""): Cause(_ROUTED, _ROUTED_FIX),
    ("even-times", "periodic"): Cause(
        "one of several backends is slow, or something runs after every few requests",
        "ask each backend directly (--base-url), and look at the engine's log for what comes at that rhythm",
    ),
    ("even-times", ""): Cause(
        "the machine or the network is busy with something else, or one of several backends is slow",
        "measure again when nothing else runs there; ask each backend directly (--base-url)",
    ),
    ("frames", ""): Cause(_FRAMES, _FRAMES_FIX),
    ("cancel", ""): Cause(
        "a proxy keeps reading after its client left, or the engine does not notice",
        "let the proxy close its upstream connection when the client's closes",
    ),
    ("determinism", "fixed"): Cause(
        "the temperature is always 0, or a cache answers whatever the seed and the temperature are",
        "look for sampling flags of the engine and of proxies, and for a cache",
    ),
    ("determinism", ""): Cause(
        "temperature 0 is ignored: sampling is forced by the server or changed on the way",
        "look for sampling flags of the engine and of proxies",
    ),
    ("bleed", "lost"): Cause("answers are damaged under load", _SLOTS_FIX),
    ("bleed", ""): Cause(_SLOTS, _SLOTS_FIX),
    ("image", "dropped"): Cause(
        "the picture is accepted and never reaches the model: it is dropped, mmproj is missing, or it has no vision",
        "start it with its mmproj file, check whether a proxy drops image parts, or let it refuse pictures",
    ),
    ("image", ""): Cause(
        "the picture is misread: a wrong mmproj or preprocessing",
        "take the mmproj file of the same release as the weights",
    ),
}
_TIMEOUT = Cause("it answers too slowly, or hangs", "look at its log and its load: stoker serves logs NAME")
_NO_ANSWER = Cause("the request was refused or interrupted", "the finding quotes the server; its log may say more")


def cause(check: str, cause_key: str) -> Cause:
    """Cause and fix of this failure. A timeout and a missing answer have the same ones at every check."""
    if cause_key == "timeout":
        return _TIMEOUT
    if cause_key == "no-answer":
        return _NO_ANSWER
    # A tool check without an entry of its own takes that of the first tool check.
    family = (check, "tool-single") if check.startswith("tool-") else (check,)
    for name in family:
        if (name, cause_key) in CAUSES:
            return CAUSES[name, cause_key]
    return CAUSES.get((check, ""), Cause("", ""))
