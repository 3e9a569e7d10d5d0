"""A Responses answer as events.

    1. a piece of text, of a refusal, of thinking comes  -> its block opens with it: nobody has to have announced it
    2. a piece of a call comes                           -> in its call; it waits while name and id are not known
    3. a `.done` carries the whole                       -> all of it, if no piece came before; the block closes
    4. an item is done                                   -> what of it never came is given, its signature, its end
    5. the terminal event                                -> items that never came, usage, the reason, the end

Items are found by their id, else by their index: engines leave out either, and some make up a new id each time.
Summaries and open thinking are both thinking; of an item that has both, what comes first is given.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from stoker.domain.answer import (
    Answer,
    AnswerBlock,
    Began,
    BlockKind,
    Closed,
    Counted,
    Ended,
    Event,
    Failed,
    Finished,
    Grew,
    Opened,
    Signed,
    StopReason,
    Tokens,
)
from stoker.domain.prompt import Refusal, Text, Thinking, ToolCall
from stoker.request.codec.endings import failed, is_failure, stop_of
from stoker.request.codec.upstream_errors import as_error, is_error
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.json_text import encode, object_of, objects_of, text_of
from stoker.request.translate.neutral.protocols import number, part

BETWEEN = "\n\n"
"""Between the parts of a summary."""


class _Piece(NamedTuple):
    kind: BlockKind
    whole: str
    """The field of its `.done`."""
    place: str
    """The field that says which part of the item it is of."""


_PIECES = {
    "output_text": _Piece(BlockKind.TEXT, "text", "content_index"),
    "refusal": _Piece(BlockKind.REFUSAL, "refusal", "content_index"),
    "reasoning_text": _Piece(BlockKind.THINKING, "text", "content_index"),
    "reasoning_summary_text": _Piece(BlockKind.THINKING, "text", "summary_index"),
    "function_call_arguments": _Piece(BlockKind.CALL, "arguments", ""),
    "custom_tool_call_input": _Piece(BlockKind.CALL, "input", ""),
}
"""By the middle of their events' names."""
_CALLS = ("function_call", "custom_tool_call")
_KINDS = {Text: BlockKind.TEXT, Refusal: BlockKind.REFUSAL, Thinking: BlockKind.THINKING}


class _Block:
    __slots__ = ("at", "is_closed", "kind")

    def __init__(self, at: int, kind: BlockKind) -> None:
        self.at = at
        self.kind = kind
        self.is_closed = False


class _Item:
    __slots__ = (
        "blocks", "by_place", "call", "call_id", "has_pieces", "held", "id", "is_custom", "is_done", "name", "place",
        "places", "source", "thought", "type",
    )  # fmt: skip

    def __init__(self, id: str) -> None:
        self.id = id
        self.type = ""
        """Empty: a piece of it came, and nothing yet that says what it is."""
        self.is_done = False
        self.blocks: list[_Block] = []
        self.by_place: dict[tuple[BlockKind, int], _Block] = {}
        self.thought: _Block | None = None
        self.source = ""
        """Which of its two kinds of thinking came first."""
        self.place = 0
        """The part of thinking that came last."""
        self.places: set[int] = set()
        self.call: _Block | None = None
        self.call_id = ""
        self.name = ""
        self.is_custom = False
        self.has_pieces = False
        self.held: list[str] = []
        """Pieces of a call that came before its name."""


class ResponsesAnswerReader:
    """See the module's docstring."""

    __slots__ = (
        "_began",
        "_by_id",
        "_by_index",
        "_has_calls",
        "_is_over",
        "_items",
        "_next",
        "losses",
    )

    def __init__(self, losses: Losses, keeps_logprobs: bool = False) -> None:
        """`keeps_logprobs`: of no account here, since nothing of them is read."""
        self.losses = losses
        self._began = False
        self._is_over = False
        self._has_calls = False
        self._items: list[_Item] = []
        self._by_id: dict[str, _Item] = {}
        self._by_index: dict[int, _Item] = {}
        self._next = 0

    def read(self, payload: dict[str, Any]) -> list[Event]:
        if self._is_over:
            return []
        kind, response = text_of(payload.get("type")), object_of(payload.get("response"))
        if is_error(payload) or kind in ("response.failed", "response.error"):
            self._is_over = True
            return [Failed(as_error(payload if is_error(payload) else response))]
        out: list[Event] = []
        if not self._began:
            self._began = True
            out.append(Began(text_of(response.get("id")), text_of(response.get("model"))))
        match kind:
            case "response.output_item.added":
                self._add(payload, out)
            case "response.output_item.done":
                given = object_of(payload.get("item"))
                self._settle(self._item(id_of(given), payload.get("output_index")), given, out)
            case "response.completed" | "response.incomplete" | "response.cancelled":
                status = text_of(response.get("status"))
                if is_failure(status) or kind == "response.cancelled":
                    self._is_over = True
                    return [Failed(failed(status or "cancelled"))]
                self._end(kind, response, out)
            case "response.output_text.annotation.added":
                self.losses.add("annotations")
            case _:
                self._read_piece(kind, payload, out)
        return out

    def finish(self, is_said: bool = False) -> list[Event]:
        """Nothing: the terminal event said it all, or the answer has no proper end."""
        return []

    def read_whole(self, payload: dict[str, Any]) -> Answer:
        answer = Answer(text_of(payload.get("id")), text_of(payload.get("model")))
        for item in objects_of(payload.get("output")):
            answer.blocks += said_of(item, self.losses)
        has_calls = any(isinstance(block, ToolCall) for block in answer.blocks)
        answer.stop = ending_of(payload, payload.get("status") == "incomplete", has_calls)
        answer.tokens = tokens_of(payload) or Tokens()
        return answer

    # -- items ---------------------------------------------------------------------------------------------------------

    def _add(self, payload: dict[str, Any], out: list[Event]) -> None:
        given = object_of(payload.get("item"))
        id, index = id_of(given), payload.get("output_index")
        known = self._find(id, index)
        if known is None or known.type:  # the same index for all items: each announcement is another item
            known = self._new(id, index)
        self._learn(known, given)
        if known.type in _CALLS and known.name and known.call_id:
            self._open_call(known, out)

    def _find(self, id: str, index: Any) -> _Item | None:
        known = self._by_id.get(id) if id else None
        return known if known is not None or type(index) is not int else self._by_index.get(index)

    def _item(self, id: str, index: Any) -> _Item:
        known = self._find(id, index)
        return known if known is not None else self._new(id, index)

    def _new(self, id: str, index: Any) -> _Item:
        item = _Item(id)
        self._items.append(item)
        if id:
            self._by_id[id] = item
        if type(index) is int:
            self._by_index[index] = item
        return item

    def _learn(self, item: _Item, given: dict[str, Any]) -> None:
        item.type = text_of(given.get("type")) or item.type
        item.name = text_of(given.get("name")) or item.name
        item.call_id = text_of(given.get("call_id")) or item.call_id
        if item.type:
            item.is_custom = item.type == "custom_tool_call"
        if item.call_id:
            self._by_id.setdefault(item.call_id, item)

    def _settle(self, item: _Item, given: dict[str, Any], out: list[Event]) -> None:
        """All that there is of an item is known: what never came is given out, and it closes."""
        if item.is_done:
            return
        item.is_done = True
        self._learn(item, given)
        came = {kind: sum(block.kind is kind for block in item.blocks) for kind in _KINDS.values()}
        for said in said_of(given, self.losses):
            if isinstance(said, ToolCall):
                self._settle_call(item, said.arguments, out)
                continue
            kind = _KINDS.get(type(said), BlockKind.TEXT)
            came[kind] -= 1
            if came[kind] < 0:
                block = self._open(item, kind, out)
                if kind is BlockKind.THINKING:
                    item.thought = block
                if text := getattr(said, "text", ""):
                    out.append(Grew(block.at, text))
            if isinstance(said, Thinking) and said.signature and item.thought is not None:
                out.append(Signed(item.thought.at, said.signature))
        self._close(item, out)

    def _settle_call(self, item: _Item, arguments: str, out: list[Event]) -> None:
        call = self._open_call(item, out)
        if arguments and not item.has_pieces:
            out.append(Grew(call.at, arguments))

    def _close(self, item: _Item, out: list[Event]) -> None:
        for block in item.blocks:
            self._shut(block, out)

    # -- pieces ------------------------------------------------------------------------------------------------------

    def _read_piece(self, kind: str, payload: dict[str, Any], out: list[Event]) -> None:
        _, _, rest = kind.partition(".")
        name, _, stage = rest.partition(".")
        piece = _PIECES.get(name)
        if piece is None or stage not in ("delta", "done"):
            return
        is_whole = stage == "done"
        text = text_of(payload.get(piece.whole if is_whole else "delta"))
        if not text and not is_whole:
            return
        item = self._item(text_of(payload.get("item_id")), payload.get("output_index"))
        if item.is_done:
            return
        place = payload.get(piece.place)
        place = place if type(place) is int else 0
        match piece.kind:
            case BlockKind.CALL:
                item.name = item.name or text_of(payload.get("name"))
                item.is_custom = item.is_custom or name == "custom_tool_call_input"
                self._call(item, text, is_whole, out)
            case BlockKind.THINKING:
                self._think(item, name, place, text, is_whole, out)
            case _:
                self._say(item, piece.kind, place, text, is_whole, out)

    def _say(self, item: _Item, kind: BlockKind, place: int, text: str, is_whole: bool, out: list[Event]) -> None:
        block = item.by_place.get((kind, place))
        if block is None:
            if not text:
                return
            block = item.by_place[kind, place] = self._open(item, kind, out)
            out.append(Grew(block.at, text))
        elif not block.is_closed and not is_whole:
            out.append(Grew(block.at, text))
        if is_whole:
            self._shut(block, out)

    def _think(self, item: _Item, source: str, place: int, text: str, is_whole: bool, out: list[Event]) -> None:
        """Stays open: the signature comes with the item's end."""
        item.source = item.source or source
        if item.source != source or not text or (is_whole and place in item.places):
            return
        if item.thought is None:
            item.thought = self._open(item, BlockKind.THINKING, out)
        elif item.place != place:
            text = BETWEEN + text
        item.place = place
        item.places.add(place)
        out.append(Grew(item.thought.at, text))

    def _call(self, item: _Item, text: str, is_whole: bool, out: list[Event]) -> None:
        call = item.call
        if call is not None and call.is_closed:
            return
        if text and not (is_whole and item.has_pieces):
            item.has_pieces = True
            if call is not None:
                out.append(Grew(call.at, text))
            else:
                item.held.append(text)
        if is_whole and call is not None:
            self._shut(call, out)

    def _open_call(self, item: _Item, out: list[Event]) -> _Block:
        if item.call is None:
            self._has_calls = True
            item.call = _Block(self._place(), BlockKind.CALL)
            item.blocks.append(item.call)
            out.append(Opened(item.call.at, BlockKind.CALL, item.call_id or item.id, item.name, item.is_custom))
            if item.held:
                out.append(Grew(item.call.at, "".join(item.held)))
        return item.call

    def _open(self, item: _Item, kind: BlockKind, out: list[Event]) -> _Block:
        block = _Block(self._place(), kind)
        item.blocks.append(block)
        out.append(Opened(block.at, kind))
        return block

    def _shut(self, block: _Block, out: list[Event]) -> None:
        if not block.is_closed:
            block.is_closed = True
            out.append(Closed(block.at))

    def _place(self) -> int:
        self._next += 1
        return self._next - 1

    # -- the end -------------------------------------------------------------------------------------------------------

    def _end(self, kind: str, response: dict[str, Any], out: list[Event]) -> None:
        self._is_over = True
        for at, given in enumerate(objects_of(response.get("output"))):
            self._settle(self._listed(given, at), given, out)
        for item in self._items:
            if item.held and item.call is None:  # a call that never got a name is still what the model did
                self._open_call(item, out)
            self._close(item, out)
        tokens = tokens_of(response)
        if tokens is not None:
            out.append(Counted(tokens))
        is_cut = kind == "response.incomplete" or response.get("status") == "incomplete"
        out += (Finished(ending_of(response, is_cut, self._has_calls)), Ended())

    def _listed(self, given: dict[str, Any], at: int) -> _Item:
        """The item that stands here in the final output: the one of this id, else the one that came in this place."""
        for name in ("id", "call_id"):
            known = self._by_id.get(text_of(given.get(name)))
            if known is not None:
                return known
        known = self._items[at] if at < len(self._items) else None
        same = known is not None and known.type in ("", given.get("type"))
        return known if known is not None and same else self._new(id_of(given), None)


# -- what is whole: nothing is raised, whatever stands there -------------------------------------------------------


def said_of(item: dict[str, Any], losses: Losses) -> list[AnswerBlock]:
    """The blocks of one whole item. Empty text is none."""
    kind = item.get("type")
    if kind == "message":
        found = (_part(part, losses) for part in objects_of(item.get("content")))
        return [said for said in found if said is not None]
    if kind == "reasoning":
        thoughts = _thoughts(item.get("content")) or _thoughts(item.get("summary"))
        signature = text_of(item.get("encrypted_content"))
        return [Thinking(BETWEEN.join(thoughts), signature)] if thoughts or signature else []
    id, name = text_of(item.get("call_id")) or text_of(item.get("id")), text_of(item.get("name"))
    if kind == "custom_tool_call":
        return [ToolCall(id, name, text_of(item.get("input")), custom=True)]
    if kind == "function_call":
        return [ToolCall(id, name, _arguments(item.get("arguments")))]
    losses.add("answer_image" if kind == "image_generation_call" else "foreign_block")
    return []


def _part(part: dict[str, Any], losses: Losses) -> AnswerBlock | None:
    if part.get("annotations"):
        losses.add("annotations")
    if refusal := text_of(part.get("refusal")):
        return Refusal(refusal)
    text = text_of(part.get("text"))
    return Text(text) if text else None


def _thoughts(parts: Any) -> list[str]:
    return [text for part in objects_of(parts) if (text := text_of(part.get("text")))]


def _arguments(value: Any) -> str:
    """Some engines give an object instead of its text."""
    return encode(value).decode() if isinstance(value, dict) else text_of(value)


def ending_of(response: dict[str, Any], is_cut: bool, has_calls: bool) -> StopReason:
    if not is_cut:
        return StopReason.CALLS if has_calls else StopReason.END
    reason = text_of(object_of(response.get("incomplete_details")).get("reason"))
    stop = stop_of(reason)
    return stop if stop in (StopReason.FILTERED, StopReason.CONTEXT) else StopReason.LENGTH  # never a complete one


def tokens_of(response: dict[str, Any]) -> Tokens | None:
    usage = response.get("usage")
    if not isinstance(usage, dict):
        return None
    return Tokens(
        input=number(usage.get("input_tokens")),
        cached=part(usage, "input_tokens_details", "cached_tokens"),
        written=part(usage, "input_tokens_details", "cache_write_tokens"),
        output=number(usage.get("output_tokens")),
        reasoning=part(usage, "output_tokens_details", "reasoning_tokens"),
    )


def id_of(item: dict[str, Any]) -> str:
    return text_of(item.get("id")) or text_of(item.get("call_id"))
