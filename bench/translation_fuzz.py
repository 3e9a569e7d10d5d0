"""Coverage-guided fuzzing of the translation: `python -m bench.translation_fuzz --target NAME [--seconds N]`.

prompt-DIALECT  a client's request: read, then written for every dialect that serves speak
answer-DIALECT  a serve's answer to every dialect of clients: as a stream in random pieces, and as a whole

Nothing may be raised but ClientError of a request and UpstreamError of a whole answer, and what is written has to be
JSON. libFuzzer's own guards do the rest: an input that takes longer than ten seconds, or a process above a gigabyte,
ends the run like a crash. What ends it is saved under --out, and becomes a test.

Needs atheris (https://github.com/google/atheris), which is no dependency: `pip install --target DIR atheris`, and DIR
in PYTHONPATH.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SERVES = ("chat", "messages", "responses")
CLIENTS = (*SERVES, "completions", "ollama-chat", "ollama-generate")
TARGETS = (*(f"prompt-{name}" for name in CLIENTS), *(f"answer-{name}" for name in SERVES))
LONGEST = 8192
"""Bytes of an input."""
SLOWEST = 10
"""Seconds that one input may take."""
MEMORY = 1024
"""MiB that the process may take."""

SEEDS = {
    "prompt-chat": (
        '{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text'
        '","text":"u"}]},{"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"'
        'a","type":"function","function":{"name":"f","arguments":"{\\"x\\":1}"}}]},{"role":"tool","tool_cal'
        'l_id":"a","content":"[tool error] r"}],"tools":[{"type":"function","function":{"name":"f","param'
        'eters":{}}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"typ'
        'e":"function","function":{"name":"f"}}]}},"response_format":{"type":"json_schema","json_schema":'
        '{"name":"n","schema":{}}},"stop":["x"],"stream":true,"stream_options":{"include_usage":true}}',
        '{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:'
        'image/png;base64,iVBORw0KGgoAAAAA"}},{"type":"file","file":{"file_data":"JVBERi0x"}},{"type":"in'
        'put_audio","input_audio":{"data":"AAAA","format":"wav"}}]}],"reasoning_effort":"max","logit_bias'
        '":{"1":2}}',
    ),
    "prompt-messages": (
        '{"model":"m","max_tokens":1,"system":[{"type":"text","text":"x-anthropic-billing-header: a"}],"m'
        'essages":[{"role":"user","content":"u"},{"role":"assistant","content":[{"type":"thinking","think'
        'ing":"t","signature":"stoker1.bQ==.s"},{"type":"tool_use","id":"a/b","name":"f","input":{"x":[1.'
        '0,null]}}]},{"role":"user","content":[{"type":"text","text":"t"},{"type":"tool_result","tool_use'
        '_id":"a/b","is_error":true,"content":[{"type":"search_result","title":"t","source":"s","content"'
        ':[{"type":"text","text":"x"}]}]}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}],"too'
        'l_choice":{"type":"any","disable_parallel_tool_use":true},"thinking":{"type":"enabled","budget_t'
        'okens":1024},"output_config":{"effort":"low","format":{"type":"json_schema","schema":{}}}}',
        '{"model":"m","max_tokens":0,"messages":[{"role":"user","content":[{"type":"document","source":{"'
        'type":"content","content":[{"type":"text","text":"x"}]},"title":"t"},{"type":"image","source":{"'
        'type":"base64","media_type":"image/gif","data":"R0lGODlh"}},{"type":"redacted_thinking","data":"'
        'd"}]}],"metadata":{"user_id":"u"}}',
    ),
    "prompt-responses": (
        '{"model":"m","instructions":"i","input":[{"role":"user","content":[{"type":"input_text","text":"'
        'u"},{"type":"input_image","image_url":"data:image/gif;base64,R0lGODlh"}]},{"type":"reasoning","s'
        'ummary":[{"type":"summary_text","text":"t"}],"encrypted_content":"stoker1.bQ==.s.e30="},{"type":'
        '"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call_output","call_'
        'id":"a","output":"o"},{"type":"custom_tool_call","call_id":"b","name":"c","input":"i"}],"tools":'
        '[{"type":"function","name":"f","parameters":{}},{"type":"custom","name":"c","format":{"type":"gr'
        'ammar","syntax":"lark","definition":"d"}},{"type":"namespace","name":"n","tools":[]}],"text":{"f'
        'ormat":{"type":"json_schema","name":"n","schema":{}},"verbosity":"low"},"reasoning":{"effort":"h'
        'igh","summary":"auto"},"include":["x"],"store":false}',
    ),
    "prompt-completions": (
        '{"model":"m","prompt":["p"],"max_tokens":3,"stop":"x","logprobs":0,"stream_options":{"include_us'
        'age":true}}',
    ),
    "prompt-ollama-chat": (
        '{"model":"m","messages":[{"role":"user","content":"u","images":["R0lGODlh"]},{"role":"assistant"'
        ',"thinking":"t","tool_calls":[{"function":{"name":"f","arguments":{"x":1}}}]},{"role":"tool","to'
        'ol_name":"f","content":"r"}],"options":{"num_predict":-1,"stop":["x"],"seed":1.0},"format":{"typ'
        'e":"object"},"think":"high","keep_alive":"5m","tools":[{"type":"function","function":{"name":"f"'
        ',"parameters":{}}}]}',
    ),
    "prompt-ollama-generate": (
        '{"model":"m","prompt":"p","system":"s","images":["R0lGODlh"],"format":"json","options":{"top_k":'
        '3},"raw":false}',
    ),
    "answer-chat": (
        '\x01\x05data: {"id":"i","model":"m","choices":[{"index":0,"delta":{"role":"assistant","reasoning_conte'
        'nt":"r","content":"c"}}]}\n\n: ping\r\n\r\ndata: {"choices":[{"index":0,"delta":{"tool_calls":[{"index'
        '":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\\"x\\""}},{"index":1,"id":"b"'
        ',"function":{"name":"g","arguments":"{}"}}]}}]}\n\ndata: {"choices":[{"index":0,"delta":{},"finish'
        '_reason":"tool_calls","stop_reason":"x"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"prom'
        'pt_tokens_details":{"cached_tokens":0}}}\n\ndata: [DONE]\n\n',
        '\x02\x00{"id":"i","choices":[{"message":{"content":[{"type":"thinking","thinking":"t"}],"refusal":"r",'
        '"tool_calls":[{"id":"a","function":{"name":"f","arguments":{"x":1}}}]},"finish_reason":"length"}'
        '],"usage":null}',
    ),
    "answer-messages": (
        '\x00\x07event: message_start\ndata: {"type":"message_start","message":{"id":"i","model":"m","usage":{"i'
        'nput_tokens":1,"cache_read_input_tokens":2}}}\n\nevent: content_block_start\ndata: {"type":"content'
        '_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}\n\ndata: {"type":"conte'
        'nt_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}\n\ndata: {"type":"co'
        'ntent_block_stop","index":0}\n\ndata: {"type":"content_block_start","index":1,"content_block":{"ty'
        'pe":"tool_use","id":"a","name":"f","input":{"x":1}}}\n\ndata: {"type":"content_block_delta","index'
        '":1,"delta":{"type":"input_json_delta","partial_json":"{"}}\n\ndata: {"type":"message_delta","delt'
        'a":{"stop_reason":"stop_sequence","stop_sequence":"x"},"usage":{"output_tokens":3}}\n\ndata: {"typ'
        'e":"message_stop"}\n\n',
        '\x05\x00{"id":"i","content":[{"type":"redacted_thinking","data":"d"},{"type":"text","text":"t"},{"type'
        '":"tool_use","id":"a","name":"f","input":{"x":1}}],"stop_reason":"max_tokens","usage":{"output_t'
        'okens":1}}',
    ),
    "answer-responses": (
        '\x01\x03event: response.created\ndata: {"type":"response.created","response":{"id":"i","model":"m"}'
        '}\n\ndata: {"type":"response.output_item.added","output_index":0,"item":{"id":"a","type":"function'
        '_call","call_id":"c","name":"f"}}\n\ndata: {"type":"response.function_call_arguments.delta","outpu'
        't_index":0,"item_id":"a","delta":"{"}\n\ndata: {"type":"response.reasoning_summary_text.delta","ou'
        'tput_index":1,"summary_index":0,"delta":"r"}\n\ndata: {"type":"response.output_text.done","output_'
        'index":2,"content_index":0,"text":"t"}\n\ndata: {"type":"response.output_item.done","output_index"'
        ':1,"item":{"type":"reasoning","encrypted_content":"e"}}\n\ndata: {"type":"response.incomplete","re'
        'sponse":{"incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"custom_tool_call'
        '","call_id":"z","name":"f","input":"i"}],"usage":{"input_tokens":1,"output_tokens":1}}}\n\n',
        '\x00\x00{"id":"i","output":[{"type":"message","content":[{"type":"refusal","refusal":"r"},{"type":"out'
        'put_text","text":"t"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}],"sta'
        'tus":"completed"}',
    ),
}  # fmt: skip
"""By target. What is cut apart here is one request, or a byte for the client, one for the pieces, and an answer."""
_WORDS = (
    '"type"', '"role"', '"content"', '"tool_calls"', '"function"', '"index":', '"id":', '"name":', '"arguments":',
    "null", "true", "1e999", "-0", "18446744073709551616", "123456789012345678901234567890", '"\\\\ud800"',
    '"\\\\u0000"', "[[[[", "{}", "[]", '"custom"', '"usage"', '"delta"', '"error"', "data: ", "event: ",
    "\\x0a\\x0a", "\\x0d\\x0a\\x0d\\x0a", "[DONE]", "\\xff", '"finish_reason"', '"item"', '"output_index":',
    '"response"', '"input"', '"source"', '"text"',
)  # fmt: skip


def prompt_target(name: str) -> Callable[[bytes], None]:
    """Reads a request in this dialect, and writes it in every other."""
    from stoker.domain.dialect import Dialect
    from stoker.domain.errors import ClientError
    from stoker.engines.registry import engine_of
    from stoker.request.translate.neutral.capabilities import capabilities_of
    from stoker.request.translate.neutral.json_text import loose
    from stoker.request.translate.neutral.thinking import ThinkingSigner
    from stoker.request.translate.translate import read_prompt, write_prompt

    dialect, signer = Dialect(name), ThinkingSigner((b"key",))
    kinds = (("vllm", False), ("", True))
    serves = [
        capabilities_of(engine_of(engine).traits, Dialect(serve), cloud) for serve in SERVES for engine, cloud in kinds
    ]

    def run(data: bytes) -> None:
        try:
            prompt, losses = read_prompt(dialect, data)
        except ClientError as error:
            _insist(error.status == 400, "a client's fault is a 400")
            return
        for serve in serves:
            try:
                written = write_prompt(prompt, losses, serve, signer)
            except ClientError as error:
                _insist(error.status == 400, "a client's fault is a 400")
                continue
            _insist(isinstance(loose(written.body), dict), "what is written is JSON")

    return run


def answer_target(name: str) -> Callable[[bytes], None]:
    """The first byte chooses the client, the second the pieces: 0 is an answer that was not streamed."""
    from stoker.domain.dialect import Dialect
    from stoker.domain.errors import UpstreamError
    from stoker.domain.prompt import Prompt, Role, Text, Tool, Turn
    from stoker.request.translate.neutral.gaps import Losses
    from stoker.request.translate.neutral.json_text import loose
    from stoker.request.translate.neutral.protocols import AnswerContext
    from stoker.request.translate.neutral.thinking import ThinkingSigner
    from stoker.request.translate.translate import AnswerTranslator, Written

    upstream, signer = Dialect(name), ThinkingSigner((b"key",))
    turns = [Turn(Role.USER, [Text("u")])]
    tools = [Tool("f"), Tool("g", custom=True)]
    asked = [
        AnswerContext(Prompt(Dialect(client), "m", turns, tools=tools), "req", 1, signer, "m") for client in CLIENTS
    ]

    def run(data: bytes) -> None:
        if len(data) < 2:
            return
        one = asked[data[0] % len(asked)]
        translator = AnswerTranslator(upstream, Written(one.prompt, b"", {"f": "own"}, Losses()), one)
        size, data = data[1], data[2:]
        if size == 0:
            try:
                written = translator.translate_whole(data)
            except UpstreamError:
                return
            _insist(isinstance(loose(written), dict), "what is written is JSON")
            return
        for at in range(0, len(data), size):
            translator.feed(data[at : at + size])
        translator.has_ended()
        translator.take_rest()
        translator.describe_changes()

    return run


def _insist(holds: bool, rule: str) -> None:
    if not holds:
        raise RuntimeError(rule)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.translation_fuzz", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--target", required=True, choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("fuzz-findings"), metavar="DIR")
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="kept between runs; else a temporary one")
    found = parser.parse_args(argv)
    try:
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        sys.stderr.write("no atheris: pip install --target DIR atheris, and DIR in PYTHONPATH\n")
        return 1
    kind, _, name = str(found.target).partition("-")
    with atheris.instrument_imports(include=["stoker"]):
        run = prompt_target(name) if kind == "prompt" else answer_target(name)
    found.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        corpus = found.corpus if found.corpus is not None else Path(folder, "corpus")
        corpus.mkdir(parents=True, exist_ok=True)
        for at, seed in enumerate(SEEDS[found.target]):
            (corpus / f"seed{at}").write_bytes(seed.encode("latin-1"))
        words = Path(folder, "words")
        escaped = (word.replace("\\\\", "\\\\").replace('"', '\\"') for word in _WORDS)
        words.write_text("".join(f'"{word}"\n' for word in escaped))
        flags = [
            sys.argv[0], str(corpus), f"-max_total_time={found.seconds}", f"-max_len={LONGEST}", f"-timeout={SLOWEST}",
            f"-rss_limit_mb={MEMORY}", f"-dict={words}", f"-artifact_prefix={found.out}/{found.target}-",
            "-print_final_stats=1", "-verbosity=1", "-seed=1",
        ]  # fmt: skip
        atheris.Setup(flags, run)
        atheris.Fuzz()  # ends the process
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
