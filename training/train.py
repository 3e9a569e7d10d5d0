"""Trains one model: `python -m training.train --model spark --steps 9000 --out DIR`.

The learning rate and the data mix depend on the step alone. A run that was stopped goes on from its last
checkpoint with `--resume`; a resumed run may be given another number of steps.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import torch
from torch.nn import functional as F

from training import data, tokenizer
from training.data import Batch, Stream, collate
from training.mix import MIXES, Conversation
from training.needles import needle
from training.net import SHAPES, Net
from training.tasks import Draw, Task

RATES = {"spark": 3.5e-3, "ember": 2.5e-3}
BATCH_TOKENS = {"spark": 2304, "ember": 2304}
WARM_UP, FLAT_UNTIL, LAST_SHARE = 60, 0.55, 0.02
SAVE_EVERY, LOG_EVERY = 500, 100
AVERAGE_OVER = 400  # steps; the average of the weights is what is exported


def rate_at(step: int, steps: int) -> float:
    """Warm-up, flat, then linear to 2 %."""
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    share = step / steps
    if share < FLAT_UNTIL:
        return 1.0
    return max(LAST_SHARE, 1 - (1 - LAST_SHARE) * (share - FLAT_UNTIL) / (1 - FLAT_UNTIL))


def optimizers(net: Net, rate: float) -> list[torch.optim.Optimizer]:
    matrices = [p for p in net.blocks.parameters() if p.dim() == 2]
    rest = [net.embed.weight, *[p for p in net.parameters() if p.dim() == 1]]
    return [
        torch.optim.Muon(matrices, lr=rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
    ]


def scores(net: Net, batch: Batch) -> torch.Tensor:
    hidden = net.hidden(batch.ids).flatten(0, 1)[batch.rows]
    return net.logits(hidden)


def loss_of(net: Net, batch: Batch) -> torch.Tensor:
    """Cross entropy of the answer tokens, weighted towards those not yet sure.

    In a plan or a count nearly all tokens are easy; the one that decides when to stop would drown among them.
    """
    with torch.autocast("cpu", torch.bfloat16):
        logits = scores(net, batch)
    losses = F.cross_entropy(logits.float(), batch.targets, reduction="none")
    weights = batch.weights * (1.1 - (-losses.detach()).exp())
    return (losses * weights).sum() / weights.sum()


class Exam:
    """Teacher-forced exact match per task on fixed samples; a hint on the way, not the gate."""

    def __init__(self, me: str, words: tokenizer.Tokenizer, cases: int = 24) -> None:
        draw = Draw(random.Random(99), me, data.pieces(words), fresh=True)
        tasks: list[tuple[str, Task, int]] = [(task.__name__, task, cases) for task, _ in MIXES[me]]
        if me == "ember":
            tasks.append(("needle_1200", lambda d: needle(d, 1200), 6))
        self.batches: dict[str, list[Batch]] = {}
        for name, task, count in tasks:
            exchanges = [task(draw) for _ in range(count)]
            chats = [Conversation(exchange.messages, list(exchange.tools)) for exchange in exchanges]
            samples = [data.encode(chat, words) for chat in chats]
            self.batches[name] = [collate([sample]) for sample in samples]

    def run(self, net: Net) -> dict[str, float]:
        net.eval()
        found = {}
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            for name, batches in self.batches.items():
                right = [bool((scores(net, b).argmax(-1) == b.targets).all()) for b in batches]
                found[name] = sum(right) / len(right)
        net.train()
        return found


def train(me: str, steps: int, out: Path, resume: bool, until: float) -> None:
    """Runs to `steps`, or stops after a checkpoint once `until` (Unix time) has passed."""
    torch.set_num_threads(1)
    torch.manual_seed(7)
    out.mkdir(parents=True, exist_ok=True)
    vocabulary = out / "vocabulary.json"
    if not vocabulary.exists():
        data.vocabulary().save(vocabulary)
    words = tokenizer.load(vocabulary)
    net = Net(SHAPES[me])
    optims = optimizers(net, RATES[me])
    average = [parameter.detach().clone() for parameter in net.parameters()]
    step, seen = 0, 0
    checkpoint = out / f"{me}.pt"
    if resume:
        saved = torch.load(checkpoint, weights_only=False)
        net.load_state_dict(saved["net"])
        for optim, kept in zip(optims, saved["optims"], strict=True):
            optim.load_state_dict(kept)
        step, seen = saved["step"], saved["seen"]
        average = saved.get("average") or [p.detach().clone() for p in net.parameters()]
    stream = Stream(me, words, seed=1000 + step, tokens=BATCH_TOKENS[me])
    stream.share = step / steps
    exam = Exam(me, words)
    batches = stream.batches()
    began, last, mean = time.monotonic(), time.monotonic(), 0.0
    print(f"{me}: {sum(p.numel() for p in net.parameters())} parameters, step {step} of {steps}", flush=True)
    while step < steps:
        stream.share = step / steps
        batch = next(batches)
        for optim in optims:
            for group in optim.param_groups:
                group["lr"] = RATES[me] * rate_at(step, steps)
        loss = loss_of(net, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        for optim in optims:
            optim.step()
            optim.zero_grad(set_to_none=True)
        weights = [parameter.detach() for parameter in net.parameters()]
        torch._foreach_lerp_(average, weights, 1 / AVERAGE_OVER)
        step += 1
        seen += batch.ids.numel()
        mean = loss.item() if mean == 0.0 else 0.98 * mean + 0.02 * loss.item()
        if step % LOG_EVERY == 0:
            now = time.monotonic()
            pace = f"s/step {(now - last) / LOG_EVERY:.3f} minutes {(now - began) / 60:.1f}"
            print(f"step {step} tokens {seen / 1e6:.2f}M loss {mean:.3f} {pace}", flush=True)
            last = now
        if step % SAVE_EVERY == 0 or step == steps:
            state: dict[str, object] = {"net": net.state_dict(), "average": average}
            state["optims"] = [optim.state_dict() for optim in optims]
            state |= {"step": step, "seen": seen, "me": me}
            torch.save(state, out / f"{me}.pt.new")
            (out / f"{me}.pt.new").replace(checkpoint)
            print("  " + " ".join(f"{name}={rate:.2f}" for name, rate in exam.run(net).items()), flush=True)
            last = time.monotonic()
            if time.time() > until:
                return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=sorted(SHAPES), required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--until", type=float, default=float("inf"), help="Unix time to stop at a checkpoint")
    args = parser.parse_args()
    train(args.model, args.steps, args.out, args.resume, args.until)


if __name__ == "__main__":
    main()
