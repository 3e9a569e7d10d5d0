"""The readers and writers of each dialect. Each is imported with the first request that needs it: a megabyte that plain
requests do without, and a few milliseconds.
"""

from __future__ import annotations

from typing import Any

from stoker.domain.prompt import Prompt
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.protocols import AnswerContext, AnswerReader, AnswerWriter

# -- prompts of clients


def read_chat(body: bytes, losses: Losses) -> Prompt:
    from stoker.request.translate.chat.read_prompt import read_prompt

    return read_prompt(body, losses)


def read_messages(body: bytes, losses: Losses) -> Prompt:
    from stoker.request.translate.messages.read_prompt import read_prompt

    return read_prompt(body, losses)


def read_responses(body: bytes, losses: Losses) -> Prompt:
    from stoker.request.translate.responses.read_prompt import read_prompt

    return read_prompt(body, losses)


def read_completions(body: bytes, losses: Losses) -> Prompt:
    from stoker.request.translate.completions.read_prompt import read_prompt

    return read_prompt(body, losses)


def read_ollama_chat(body: bytes, losses: Losses) -> Prompt:
    from stoker.request.translate.ollama.read_prompt import read_prompt

    return read_prompt(body, losses)


def read_ollama_generate(body: bytes, losses: Losses) -> Prompt:
    from stoker.request.translate.ollama.read_generate import read_generate

    return read_generate(body, losses)


# -- prompts for serves


def write_chat(prompt: Prompt, traits: Capabilities, losses: Losses) -> dict[str, Any]:
    from stoker.request.translate.chat.write_prompt import write_prompt

    return write_prompt(prompt, traits, losses)


def write_messages(prompt: Prompt, traits: Capabilities, losses: Losses) -> dict[str, Any]:
    from stoker.request.translate.messages.write_prompt import write_prompt

    return write_prompt(prompt, traits, losses)


def write_responses(prompt: Prompt, traits: Capabilities, losses: Losses) -> dict[str, Any]:
    from stoker.request.translate.responses.write_prompt import write_prompt

    return write_prompt(prompt, traits, losses)


# -- answers of serves


def chat_reader(losses: Losses, keeps_logprobs: bool = False) -> AnswerReader:
    from stoker.request.translate.chat.read_answer import ChatAnswerReader

    return ChatAnswerReader(losses, keeps_logprobs)


def messages_reader(losses: Losses, keeps_logprobs: bool = False) -> AnswerReader:
    from stoker.request.translate.messages.read_answer import MessagesAnswerReader

    return MessagesAnswerReader(losses)


def responses_reader(losses: Losses, keeps_logprobs: bool = False) -> AnswerReader:
    from stoker.request.translate.responses.read_answer import ResponsesAnswerReader

    return ResponsesAnswerReader(losses)


# -- answers for clients


def chat_writer(context: AnswerContext, losses: Losses) -> AnswerWriter:
    from stoker.request.translate.chat.write_answer import ChatAnswerWriter

    return ChatAnswerWriter(context, losses)


def messages_writer(context: AnswerContext, losses: Losses) -> AnswerWriter:
    from stoker.request.translate.messages.write_answer import MessagesAnswerWriter

    return MessagesAnswerWriter(context, losses)


def responses_writer(context: AnswerContext, losses: Losses) -> AnswerWriter:
    from stoker.request.translate.responses.write_answer import ResponsesAnswerWriter

    return ResponsesAnswerWriter(context, losses)


def completions_writer(context: AnswerContext, losses: Losses) -> AnswerWriter:
    from stoker.request.translate.completions.write_answer import CompletionsAnswerWriter

    return CompletionsAnswerWriter(context, losses)


def ollama_chat_writer(context: AnswerContext, losses: Losses) -> AnswerWriter:
    from stoker.request.translate.ollama.write_answer import OllamaAnswerWriter

    return OllamaAnswerWriter(context, losses, generate=False)


def ollama_generate_writer(context: AnswerContext, losses: Losses) -> AnswerWriter:
    from stoker.request.translate.ollama.write_answer import OllamaAnswerWriter

    return OllamaAnswerWriter(context, losses, generate=True)
