"""A prompt made fit for one serve, pass by pass. Each pass gives a new prompt and touches one thing.

thinking     opens sealed thinking; removes thinking whose signature is wrong, or means nothing to the target
billing      removes the block that differs with each request, for local models
arguments    makes the arguments of each call an object: one that was cut off would be refused at every later turn
results      gives every call a result in the user's next turn, and turns results without a call into text
choice       allows only tools that are there
system       keeps system turns in mid-conversation where they are: as turns, or as text of the user
images       refuses image URLs that the target must not fetch
prefill      drops the wish to continue the last turn, for targets that refuse that
user         makes the user's id one that OpenAI accepts
names, ids   makes names and ids acceptable to the target
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import (
    Block,
    Choice,
    Document,
    Image,
    Prompt,
    Redacted,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolResult,
    Turn,
)
from stoker.request.translate.neutral.calls import fitted_id, repaired, short_id, short_name
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.thinking import ANTHROPIC, OURS, ThinkingSigner, maker_of, vendor_of

BILLING = "x-anthropic-billing-header"
"""Beginning of the line, a block of its own, in which Claude Code sends its version and a hash of the request."""
_USER_LENGTH = 64
_CONTINUE = "Continue."
_NO_RESULT = "(no result: the call was not answered)"


class PassContext(NamedTuple):
    """What the passes work with: the serve's capabilities, the signer of thinking, and the record of losses."""

    traits: Capabilities
    signer: ThinkingSigner
    losses: Losses


Pass = Callable[[Prompt, PassContext], Prompt]


def prepare(prompt: Prompt, context: PassContext) -> tuple[Prompt, dict[str, str]]:
    """The prompt as the serve accepts it, and the tools' original names by their new ones. Raises ClientError 400."""
    for one in PASSES:
        prompt = one(prompt, context)
    return names(prompt, context)


# -- thinking -----------------------------------------------------------------------------------------------------


def thinking(prompt: Prompt, context: PassContext) -> Prompt:
    """1. Stoker's own seal is opened  2. Stoker's own signature must fit its text
    3. a vendor that checks signatures gets only what it signed itself
    4. for Messages of other makers Stoker signs all thinking  5. for other dialects a signature means nothing
    """
    if not any(isinstance(block, Thinking | Redacted) for turn in prompt.turns for block in turn.blocks):
        return prompt
    turns = []
    for turn in prompt.turns:
        found = (_thought(block, prompt, context) if isinstance(block, Thinking | Redacted) else block
                 for block in turn.blocks)  # fmt: skip
        turns.append(Turn(turn.role, [block for block in found if block is not None]))
    return replace(prompt, turns=turns)


def _thought(block: Thinking | Redacted, prompt: Prompt, context: PassContext) -> Block | None:
    traits, signer, losses = context
    if isinstance(block, Thinking) and block.signature.startswith(OURS):
        opened = signer.open(block.signature)
        if opened is not None:
            block = _unsealed(opened, block)  # 1
        elif not signer.fits(block.signature, block.text):
            losses.add("thinking_altered")  # 2
            return None
    vendor = vendor_of(traits)
    if isinstance(block, Redacted):
        if vendor == ANTHROPIC:
            return block
        losses.add("thinking_redacted")
        return None
    maker = block.maker or maker_of(block.signature, prompt.dialect)
    if vendor:
        if maker == vendor:
            return block  # 3
        losses.add("thinking_unsigned")
        return None
    if block.signature and not block.signature.startswith(OURS):
        if traits.dialect is not Dialect.RESPONSES or prompt.dialect is not Dialect.RESPONSES:
            losses.add("signature")
        if not block.text:
            return None
        block = Thinking(block.text)
    if traits.dialect is Dialect.MESSAGES and not block.signature.startswith(OURS):
        return Thinking(block.text, signer.sign(prompt.model, block.text))  # 4
    return block  # 5


def _unsealed(opened: dict[str, str], block: Thinking) -> Thinking | Redacted:
    """A seal without the text stands beside it."""
    if redacted := opened.get("redacted"):
        return Redacted(redacted)
    signature = opened.get("signature", "")
    maker = opened.get("maker") or maker_of(signature, Dialect.MESSAGES)
    return Thinking(opened.get("text", block.text if signature else ""), signature, maker)


# -- turns --------------------------------------------------------------------------------------------------------


def billing(prompt: Prompt, context: PassContext) -> Prompt:
    if not context.traits.local:
        return prompt
    turns = []
    for turn in prompt.turns:
        kept = turn.blocks
        if turn.role is Role.SYSTEM:
            texts = (Text(unbilled(block.text)) if isinstance(block, Text) else block for block in kept)
            kept = [block for block in texts if not (isinstance(block, Text) and not block.text)]
        if kept or not turn.blocks:
            turns.append(Turn(turn.role, kept))
    return replace(prompt, turns=turns)


def unbilled(text: str) -> str:
    """The text without the billing line."""
    return text.partition("\n")[2].lstrip("\n") if text.startswith(BILLING) else text


def arguments(prompt: Prompt, context: PassContext) -> Prompt:
    turns = []
    for turn in prompt.turns:
        blocks = turn.blocks
        if turn.role is Role.ASSISTANT:
            blocks = [
                replace(block, arguments=repaired(block.arguments, context.losses))
                if isinstance(block, ToolCall) and not block.custom
                else block
                for block in blocks
            ]
        turns.append(Turn(turn.role, blocks))
    return replace(prompt, turns=turns)


def results(prompt: Prompt, context: PassContext) -> Prompt:
    """1. calls whose next user turn has no result for them get one that says so
    2. a result whose call is not in the turn before becomes text
    3. a system turn between calls and their results is moved behind the results
    """
    turns: list[Turn] = []
    wanted: list[ToolCall] = []
    held: list[Turn] = []
    continues = prompt.continues
    for turn in prompt.turns:
        if turn.role is Role.SYSTEM and wanted:
            held.append(turn)  # 3
            continue
        if turn.role is Role.USER:
            turns += (_answered(turn, wanted, context.losses), *held)
        else:
            turns += (*_unanswered(wanted, context.losses), *held, turn)
        held = []
        wanted = [block for block in turn.blocks if isinstance(block, ToolCall)] if turn.role is Role.ASSISTANT else []
    if wanted:
        turns += (*_unanswered(wanted, context.losses), *held)
        continues = False
    return replace(prompt, turns=turns, continues=continues)


def _answered(turn: Turn, wanted: list[ToolCall], losses: Losses) -> Turn:
    open_calls = Counter(call.id for call in wanted)  # some engines give every call the same id
    custom = {call.id for call in wanted if call.custom}
    found: list[Block] = []
    rest: list[Block] = []
    for block in turn.blocks:
        if not isinstance(block, ToolResult):
            rest.append(block)
        elif open_calls[block.id]:
            open_calls[block.id] -= 1
            found.append(replace(block, custom=block.id in custom))
        else:
            losses.add("result_orphan")  # 2
            rest += _as_text(block)
    for call in wanted:
        if open_calls[call.id]:
            open_calls[call.id] -= 1
            losses.add("result_missing")  # 1
            found.append(_missing(call))
    return Turn(Role.USER, found + rest)


def _unanswered(wanted: list[ToolCall], losses: Losses) -> list[Turn]:
    if not wanted:
        return []
    losses.add("result_missing")
    return [Turn(Role.USER, [_missing(call) for call in wanted])]


def _missing(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, [Text(_NO_RESULT)], is_error=True, custom=call.custom)


def _as_text(result: ToolResult) -> list[Block]:
    head = Text(f"(result of call {result.id}, which is not in this conversation)")
    return [head, *result.content]


def system(prompt: Prompt, context: PassContext) -> Prompt:
    """What becomes of a system turn:

    1. at the beginning of the conversation it stays; all of these become one turn if the template allows only one
    2. after a turn of the user, its text joins that turn: the last result if the turn holds only results, so that it
       stays a turn of tools
    3. elsewhere it stays, if the template allows a system turn there
    4. otherwise it becomes a turn of the user

    It is never moved to the front: that would change the beginning of the prompt each time, and miss the prefix cache.
    Consecutive turns of the user are joined.
    """
    if not context.traits.local:
        return prompt
    keeps = context.traits.system_turns == "keep"
    turns: list[Turn] = []
    joined: ToolResult | None = None
    is_opening = True
    for turn in prompt.turns:
        last = turns[-1] if turns else None
        role = turn.role
        is_opening = is_opening and role is Role.SYSTEM
        if role is Role.SYSTEM and not is_opening and (not keeps or (last is not None and last.role is Role.USER)):
            context.losses.add("system_turn")
            role = Role.USER
        if last is None or role is not last.role or role is Role.ASSISTANT or (role is Role.SYSTEM and keeps):
            turns.append(Turn(role, [*turn.blocks]))  # 3, 4
            continue
        held = last.blocks[-1] if last.blocks and turn.role is Role.SYSTEM else None
        if isinstance(held, ToolResult):
            if held is not joined:
                last.blocks[-1] = joined = replace(held, content=[*held.content])
            joined.content += turn.blocks  # 2
        else:
            last.blocks += turn.blocks  # 1, 2
    return replace(prompt, turns=turns)


def choice(prompt: Prompt, context: PassContext) -> Prompt:
    """What the client allows beside these, the vendor would have run; nothing but that: no tool may be called."""
    given = prompt.tool_choice
    if given is None or given.allowed is None:
        return prompt
    known = {tool.name for tool in prompt.tools}
    allowed = [name for name in given.allowed if name in known]
    if len(allowed) == len(given.allowed) and allowed:
        return prompt
    return replace(prompt, tool_choice=replace(given, allowed=allowed) if allowed else ToolChoice(Choice.NONE))


# -- images, names, ids ---------------------------------------------------------------------------------------------


def images(prompt: Prompt, context: PassContext) -> Prompt:
    """Raises ClientError 400 `image_url_refused`."""
    if context.traits.takes_image_urls:
        return prompt
    for turn in prompt.turns:
        for block in _flat(turn.blocks):
            if isinstance(block, Image | Document) and block.url:
                raise refused_url("input" if prompt.dialect is Dialect.RESPONSES else "messages")
    return prompt


def refused_url(where: str) -> ClientError:
    text = (
        f"'{where}' gives an image or a file by its address, and addresses are not fetched for this model: "
        "send the content itself, as a data: URL (data:image/png;base64,...), or with a source of type base64 in the "
        "Messages API; for images, the operator can allow it with `fetch = true` in [media] of the configuration"
    )
    return ClientError(text, code="image_url_refused", param=where)


def _flat(blocks: list[Block]) -> list[Block]:
    return [inner for block in blocks for inner in (block.content if isinstance(block, ToolResult) else (block,))]


def ids(prompt: Prompt, context: PassContext) -> Prompt:
    """The same id for a call and its result, at every turn."""
    traits = context.traits
    if traits.tool_ids == "short":
        spelt = short_id
    elif traits.id_length:
        spelt = partial(fitted_id, length=traits.id_length, is_plain=traits.dialect is Dialect.MESSAGES)
    else:
        return prompt
    turns = []
    for turn in prompt.turns:
        blocks = [replace(block, id=spelt(block.id)) if isinstance(block, ToolCall | ToolResult) else block
                  for block in turn.blocks]  # fmt: skip
        turns.append(Turn(turn.role, blocks))
    return replace(prompt, turns=turns)


def prefill(prompt: Prompt, context: PassContext) -> Prompt:
    """Messages takes the last turn for the answer's beginning, if it is the assistant's."""
    if not prompt.continues or context.traits.prefill != "refuse":
        return prompt
    context.losses.add("prefill")
    turns = prompt.turns
    if context.traits.dialect is Dialect.MESSAGES:
        turns = [*turns, Turn(Role.USER, [Text(_CONTINUE)])]
    return replace(prompt, turns=turns, continues=False)


def names(prompt: Prompt, context: PassContext) -> tuple[Prompt, dict[str, str]]:
    """Shortens names that the target does not accept. The second value maps the new names to the original ones."""
    length = context.traits.name_length
    used = {tool.name for tool in prompt.tools}
    used |= {block.name for turn in prompt.turns for block in turn.blocks if isinstance(block, ToolCall)}
    shorter = {name: short for name in used if (short := short_name(name, length)) != name}
    if not shorter:
        return prompt, {}
    tools = [replace(tool, name=shorter.get(tool.name, tool.name)) for tool in prompt.tools]
    turns = []
    for turn in prompt.turns:
        blocks = [replace(block, name=shorter.get(block.name, block.name)) if isinstance(block, ToolCall) else block
                  for block in turn.blocks]  # fmt: skip
        turns.append(Turn(turn.role, blocks))
    choice = prompt.tool_choice
    if choice is not None:
        allowed = None if choice.allowed is None else [shorter.get(name, name) for name in choice.allowed]
        choice = replace(choice, name=shorter.get(choice.name, choice.name), allowed=allowed)
    return replace(prompt, tools=tools, turns=turns, tool_choice=choice), {v: k for k, v in shorter.items()}


def user(prompt: Prompt, context: PassContext) -> Prompt:
    """Makes the user's id one that OpenAI accepts: a long one (Claude Code's has about 200 letters) becomes its hash,
    which still tells users apart (https://github.com/maximhq/bifrost/pull/1000).
    """
    id = prompt.settings.get("user")
    if (
        context.traits.local
        or context.traits.dialect is Dialect.MESSAGES
        or not isinstance(id, str)
        or len(id) <= _USER_LENGTH
    ):
        return prompt
    short = hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()
    return replace(prompt, settings={**prompt.settings, "user": short})


PASSES: tuple[Pass, ...] = (thinking, billing, arguments, results, choice, system, images, ids, prefill, user)
