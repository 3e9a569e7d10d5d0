"""What `stoker run` shows: blocks as they pass or fail, and what it all cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from stoker.cli.console import figures, terminal

if TYPE_CHECKING:
    from stoker.domain.access import Settings
    from stoker.domain.decision import Decision


class RunView:
    """Takes the records of a scratchpad as they come. `is_quiet`: shows nothing, keeps all for `document`."""

    def __init__(self, is_quiet: bool) -> None:
        self.committed = 0
        self.blocks: dict[int, dict[str, Any]] = {}
        self.text = ""
        self.policy = ""
        self._is_quiet = is_quiet
        self._resumes = ""
        self._ends_line = True

    def on_began(self, headers: Mapping[str, str]) -> None:
        """The reply's headers: by which policy, and who answers."""
        self.policy, _, why = headers.get("x-stoker-policy", "").partition("; ")
        if self.policy == "simple":
            serve = headers.get("x-stoker-serve", "the worker")
            self._note("dim", f"answered by {serve} alone, and not checked ({why})")

    def on_text(self, text: str) -> None:
        self.text += text
        if not self._is_quiet:
            terminal.say_piece(text)
            self._ends_line = text.endswith("\n")

    def on_records(self, records: Iterable[Mapping[str, Any]]) -> None:
        for record in records:
            match record.get("kind"):
                case "head":
                    self._on_head(record)
                case "block":
                    self._on_block(record)
                case "check":
                    self._on_check(record)
                case "commit":
                    self._on_commit(record)

    def end_line(self) -> None:
        """What follows begins on a line of its own."""
        if not self._ends_line:
            terminal.say()
            self._ends_line = True

    def _on_head(self, head: Mapping[str, Any]) -> None:
        self._resumes = str(head.get("resumes", ""))
        judge = f", {head['validator']} judges" if head.get("validator") else ""
        after = f", after what {self._resumes} committed" if self._resumes else ""
        self._note("dim", f"{head['orchestrator']}: {head['worker']} writes{judge}; class {head['task']}{after}")

    def _on_block(self, record: Mapping[str, Any]) -> None:
        block = self._block(record["number"])
        block["attempts"] = record["attempt"]
        again = f", attempt {record['attempt']}" if record["attempt"] > 1 else ""
        lines = _lines(str(record["text"]))
        self._note("dim", f"block {record['number']}: written, {figures.counted(lines, 'line')}{again}")

    def _on_check(self, record: Mapping[str, Any]) -> None:
        found, _, _ = str(record["text"]).strip().removeprefix("- ").partition("\n  - correction:")
        if record["passed"]:
            return
        self._block(record["number"])["findings"].append({"layer": record["layer"], "found": found})
        self._note("red", f"block {record['number']}: {found}")

    def _on_commit(self, record: Mapping[str, Any]) -> None:
        number, content = record["number"], record["block"]
        self.committed += 1
        is_kept = number not in self.blocks
        block = self._block(number)
        block["passed"] = True
        block |= {name: content.get(name, "") for name in ("text", "path", "language")}
        where = f", for {content['path']}" if content.get("path") else ""
        self._note("green", f"block {number}: {f'kept from {self._resumes}' if is_kept else 'passed'}{where}")

    def _block(self, number: int) -> dict[str, Any]:
        return self.blocks.setdefault(number, {"number": number, "passed": False, "attempts": 0, "findings": []})

    def _note(self, style: str, text: str) -> None:
        if not self._is_quiet:
            self.end_line()
            terminal.note_in(style, text)


def _lines(page: str) -> int:
    """How many lines a block has, without its title and its fence."""
    lines = page.rstrip().splitlines()[2:]
    return len(lines[1:-1] if lines and lines[0].startswith("```") else lines)


def cost_of(decision: Decision, settings: Settings | None) -> float | None:
    """Of worker and validator together, in the currency of the tiers. None: neither is a tier, or the worker's tokens
    are not known.
    """
    if decision.routed is not None and decision.routed.attempts:
        return decision.routed.cost
    router, record = settings.router if settings is not None else None, decision.orchestrated
    prices = {tier.serve: tier.cost for tier in reversed(router.tiers)} if router is not None else {}
    if decision.input_tokens is None or decision.output_tokens is None:
        return None
    costs = []
    if decision.serve in prices:
        cached, written = decision.cached_tokens or 0, decision.cache_write_tokens or 0
        costs.append(prices[decision.serve].of(decision.input_tokens, decision.output_tokens, cached, written))
    if record is not None and record.validator in prices:
        output = record.validator_output_tokens
        costs.append(prices[record.validator].of(record.validator_tokens - output, output))
    return sum(costs) if costs else None


def rate_of(decision: Decision) -> float | None:
    """Tokens that the worker wrote for each second of the request."""
    if not decision.output_tokens or not decision.latency:
        return None
    return decision.output_tokens / decision.latency


def summary(decision: Decision, cost: float | None) -> str:
    """One line: what was committed, what it cost."""
    record = decision.orchestrated
    parts = []
    if record is not None and record.policy == "block_by_block":
        failed = sum(record.failures.values())
        parts.append(f"{figures.counted(record.blocks, 'block')}, {failed} failed")
    parts.append(f"{figures.number(decision.input_tokens)} tokens in, {figures.number(decision.output_tokens)} out")
    if record is not None and record.wasted_tokens:
        parts.append(f"{record.wasted_tokens} wasted")
    if record is not None and record.validator_tokens:
        parts.append(f"{record.validator_tokens} for the validator")
    rate = rate_of(decision)
    parts.append(figures.seconds(decision.latency) + ("" if rate is None else f", {rate:.1f} tokens/s"))
    if cost:
        parts.append(f"cost {cost:.6g}")
    return "; ".join(parts)
