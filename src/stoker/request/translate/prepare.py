"""A prompt made fit for one serve, pass by pass. Each pass gives a new prompt and touches one thing.

thinking     seals are opened; what is signed wrongly, or by nobody whom the target believes, goes
billing      a local model does not see the block that differs with each request
results      every call gets its result in the next turn of the user, every result belongs to a call
system       system turns in mid-conversation stay where they are: as turns, or as text of the user
images       an address goes only to who may have it
names, ids   as the target takes them
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from stoker.domain.dialect import Dialect
from stoker.domain.errors import ClientError
from stoker.domain.prompt import Block, Call, Image, Prompt, Redacted, Result, Role, Text, Thinking, Turn
from stoker.request.translate.calls import short_id, short_name
from stoker.request.translate.corners import Losses
from stoker.request.translate.thinking import OURS, Signer
from stoker.request.translate.traits import Traits

BILLING = "x-anthropic-billing-header"
"""How the block begins in which Claude Code names its version and a hash of the request."""
_NO_RESULT = "(no result: the call was not answered)"


class Fit(NamedTuple):
    """What the passes know: the serve, who signs, and where losses are told."""

    traits: Traits
    signer: Signer
    losses: Losses


Pass = Callable[[Prompt, Fit], Prompt]


def prepare(prompt: Prompt, fit: Fit) -> tuple[Prompt, dict[str, str]]:
    """The prompt as the serve takes it, and the tools' own names by the ones they got. Raises ClientError 400."""
    for one in PASSES:
        prompt = one(prompt, fit)
    return names(prompt, fit)


# -- thinking -----------------------------------------------------------------------------------------------------


def thinking(prompt: Prompt, fit: Fit) -> Prompt:
    """1. a seal of ours is opened  2. a signature of ours must fit its text  3. Anthropic takes only its own
    4. to Messages of other makers all thinking is signed  5. elsewhere a signature means nothing
    """
    if not any(isinstance(block, Thinking | Redacted) for turn in prompt.turns for block in turn.blocks):
        return prompt
    turns = []
    for turn in prompt.turns:
        found = (_thought(block, prompt, fit) if isinstance(block, Thinking | Redacted) else block
                 for block in turn.blocks)  # fmt: skip
        turns.append(Turn(turn.role, [block for block in found if block is not None]))
    return replace(prompt, turns=turns)


def _thought(block: Thinking | Redacted, prompt: Prompt, fit: Fit) -> Block | None:
    traits, signer, losses = fit
    if isinstance(block, Thinking) and block.signature.startswith(OURS):
        opened = signer.open(block.signature)
        if opened is not None:
            block = _unsealed(opened)  # 1
        elif not signer.fits(block.signature, block.text):
            losses.add("thinking_altered")  # 2
            return None
    elif isinstance(block, Thinking) and prompt.dialect is Dialect.RESPONSES and traits.dialect is not prompt.dialect:
        block = Thinking(block.text)  # only OpenAI reads what it encrypted
    if isinstance(block, Redacted):
        if traits.checks_signatures:
            return block
        losses.add("thinking_redacted")
        return None
    if traits.checks_signatures:
        if block.signature and not block.signature.startswith(OURS):
            return block  # 3
        losses.add("thinking_unsigned")
        return None
    if traits.dialect is Dialect.MESSAGES and not block.signature:
        return Thinking(block.text, signer.sign(prompt.model, block.text))  # 4
    return block  # 5


def _unsealed(opened: dict[str, object]) -> Thinking | Redacted:
    if redacted := opened.get("redacted"):
        return Redacted(str(redacted))
    return Thinking(str(opened.get("text", "")), str(opened.get("signature", "")))


# -- turns --------------------------------------------------------------------------------------------------------


def billing(prompt: Prompt, fit: Fit) -> Prompt:
    """See BILLING."""
    if not fit.traits.local:
        return prompt
    turns = []
    for turn in prompt.turns:
        kept = turn.blocks
        if turn.role is Role.SYSTEM:
            kept = [block for block in kept if not (isinstance(block, Text) and block.text.startswith(BILLING))]
        if kept or not turn.blocks:
            turns.append(Turn(turn.role, kept))
    return replace(prompt, turns=turns)


def results(prompt: Prompt, fit: Fit) -> Prompt:
    """1. calls whose next user turn has no result for them get one that says so
    2. a result whose call is not in the turn before becomes text
    3. a system turn between calls and their results goes behind the results
    """
    turns: list[Turn] = []
    wanted: list[Call] = []
    held: list[Turn] = []
    continues = prompt.continues
    for turn in prompt.turns:
        if turn.role is Role.SYSTEM and wanted:
            held.append(turn)  # 3
            continue
        if turn.role is Role.USER:
            turns += (_answered(turn, wanted, fit.losses), *held)
        else:
            turns += (*_unanswered(wanted, fit.losses), *held, turn)
        held = []
        wanted = [block for block in turn.blocks if isinstance(block, Call)] if turn.role is Role.ASSISTANT else []
    if wanted:
        turns += (*_unanswered(wanted, fit.losses), *held)
        continues = False
    return replace(prompt, turns=turns, continues=continues)


def _answered(turn: Turn, wanted: list[Call], losses: Losses) -> Turn:
    ids = {call.id for call in wanted}
    found: dict[str, Result] = {}
    rest: list[Block] = []
    for block in turn.blocks:
        if not isinstance(block, Result):
            rest.append(block)
        elif block.id in ids and block.id not in found:
            found[block.id] = block
        else:
            losses.add("result_orphan")  # 2
            rest += _as_text(block)
    for call in wanted:
        if call.id not in found:
            losses.add("result_missing")  # 1
            found[call.id] = _missing(call)
    ordered: list[Block] = [replace(result, custom=_is_custom(wanted, id)) for id, result in found.items()]
    return Turn(Role.USER, ordered + rest)


def _is_custom(calls: list[Call], id: str) -> bool:
    return any(call.custom and call.id == id for call in calls)


def _unanswered(wanted: list[Call], losses: Losses) -> list[Turn]:
    if not wanted:
        return []
    losses.add("result_missing")
    return [Turn(Role.USER, [_missing(call) for call in wanted])]


def _missing(call: Call) -> Result:
    return Result(call.id, [Text(_NO_RESULT)], is_error=True, custom=call.custom)


def _as_text(result: Result) -> list[Block]:
    head = Text(f"(result of call {result.id}, which is not in this conversation)")
    return [head, *result.content]


def system(prompt: Prompt, fit: Fit) -> Prompt:
    """Behind a user's turn its text joins that turn: in the last result's if the turn holds nothing else, so that it
    stays a turn of tools. Elsewhere it stays a turn where the template has one there, and joins the next user's where
    not. Never to the front: that would change the prompt's beginning each time.
    """
    if not fit.traits.local:
        return prompt
    turns: list[Turn] = []
    for turn in prompt.turns:
        last = turns[-1] if turns else None
        if turn.role is not Role.SYSTEM or last is None or all(t.role is Role.SYSTEM for t in turns):
            turns.append(turn)
        elif last.role is Role.USER:
            fit.losses.add("system_turn")
            turns[-1] = _joined(last, turn.blocks)
        elif fit.traits.system_turns == "keep":
            turns.append(turn)
        else:
            fit.losses.add("system_turn")
            turns.append(Turn(Role.USER, turn.blocks))
    return replace(prompt, turns=_merged(turns))


def _joined(turn: Turn, blocks: list[Block]) -> Turn:
    last = turn.blocks[-1] if turn.blocks else None
    if isinstance(last, Result):
        return Turn(turn.role, [*turn.blocks[:-1], replace(last, content=[*last.content, *blocks])])
    return Turn(turn.role, [*turn.blocks, *blocks])


def _merged(turns: list[Turn]) -> list[Turn]:
    """A system turn that became a user's, in front of one, is one turn with it; its results come first."""
    out: list[Turn] = []
    for turn in turns:
        last = out[-1] if out else None
        if last is None or turn.role is not Role.USER or last.role is not Role.USER:
            out.append(turn)
            continue
        blocks = [*last.blocks, *turn.blocks]
        first = [block for block in blocks if isinstance(block, Result)]
        out[-1] = Turn(Role.USER, [*first, *(block for block in blocks if not isinstance(block, Result))])
    return out


# -- images, names, ids ---------------------------------------------------------------------------------------------


def images(prompt: Prompt, fit: Fit) -> Prompt:
    """Raises ClientError 400 `image_url_refused`."""
    if fit.traits.takes_image_urls:
        return prompt
    for at, turn in enumerate(prompt.turns):
        for block in _flat(turn.blocks):
            if isinstance(block, Image) and block.url:
                raise refused_url(f"messages[{at}]")
    return prompt


def refused_url(where: str) -> ClientError:
    text = (
        f"'{where}' holds the address of an image, and addresses are not fetched for this model: "
        "send the image itself as base64, or allow addresses in the configuration's [media]"
    )
    return ClientError(text, code="image_url_refused", param=where)


def _flat(blocks: list[Block]) -> list[Block]:
    return [inner for block in blocks for inner in (block.content if isinstance(block, Result) else (block,))]


def ids(prompt: Prompt, fit: Fit) -> Prompt:
    if fit.traits.tool_ids != "short":
        return prompt
    turns = []
    for turn in prompt.turns:
        blocks = [replace(block, id=short_id(block.id)) if isinstance(block, Call | Result) else block
                  for block in turn.blocks]  # fmt: skip
        turns.append(Turn(turn.role, blocks))
    return replace(prompt, turns=turns)


def prefill(prompt: Prompt, fit: Fit) -> Prompt:
    if prompt.continues and fit.traits.prefill == "refuse":
        fit.losses.add("prefill")
        return replace(prompt, continues=False)
    return prompt


def names(prompt: Prompt, fit: Fit) -> tuple[Prompt, dict[str, str]]:
    """Names that the target does not take get shorter ones; the second value leads back."""
    length = fit.traits.name_length
    used = {tool.name for tool in prompt.tools}
    used |= {block.name for turn in prompt.turns for block in turn.blocks if isinstance(block, Call)}
    shorter = {name: short for name in used if (short := short_name(name, length)) != name}
    if not shorter:
        return prompt, {}
    tools = [replace(tool, name=shorter.get(tool.name, tool.name)) for tool in prompt.tools]
    turns = []
    for turn in prompt.turns:
        blocks = [replace(block, name=shorter.get(block.name, block.name)) if isinstance(block, Call) else block
                  for block in turn.blocks]  # fmt: skip
        turns.append(Turn(turn.role, blocks))
    choice = prompt.tool_choice
    if choice is not None:
        allowed = None if choice.allowed is None else [shorter.get(name, name) for name in choice.allowed]
        choice = replace(choice, name=shorter.get(choice.name, choice.name), allowed=allowed)
    return replace(prompt, tools=tools, turns=turns, tool_choice=choice), {v: k for k, v in shorter.items()}


PASSES: tuple[Pass, ...] = (thinking, billing, results, system, images, ids, prefill)
