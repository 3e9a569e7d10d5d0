"""Token batches from conversations, by length bucket, with a weight for each answer token."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from training import mix, template
from training.tasks import Draw
from training.tokenizer import BOS, END, SPECIALS, Tokenizer, build

BUCKETS = [32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048]
VOCABULARY_SEED = 11


@dataclass(frozen=True)
class Sample:
    ids: list[int]
    weights: list[float]  # of predicting ids[i]; 0 where nothing is learned


def encode(chat: mix.Conversation, tokenizer: Tokenizer) -> Sample:
    """An answer of n tokens weighs n / sqrt(n) in all, so that long ones do not drown short ones."""
    ids, weights = [BOS], [0.0]
    for span in template.spans(chat.messages, chat.tools):
        found = tokenizer.encode(span.text)
        ids += found
        weights += [len(found) ** -0.5 if span.learned else 0.0] * len(found)
    return Sample(ids, weights)


def doubled(rng: random.Random, vocabulary: int) -> Sample:
    """A random token string twice: what brings up the copying circuit early."""
    first = len(SPECIALS) + 256
    half = [rng.randrange(first, vocabulary) for _ in range(rng.randint(6, 40))]
    ids = [BOS, *half, END, *half, END]
    return Sample(ids, [0.0] * (len(half) + 3) + [len(half) ** -0.5] * len(half))


def vocabulary() -> Tokenizer:
    """One vocabulary for both models, from plain texts of both mixes."""
    texts = []
    for me in mix.MIXES:
        draw = Draw(random.Random(VOCABULARY_SEED), me)
        for _ in range(4000):
            chat = mix.conversation(draw, long=False)
            texts.append("".join(span.text for span in template.spans(chat.messages, chat.tools)))
    return build(texts)


def pieces(tokenizer: Tokenizer) -> list[str]:
    return [*tokenizer.merges, *"abcdefghijklmnopqrstuvwxyz"]


@dataclass(frozen=True)
class Batch:
    ids: Tensor  # [batch, length]
    rows: Tensor  # positions (flat) whose next token is learned
    targets: Tensor
    weights: Tensor


def collate(samples: list[Sample]) -> Batch:
    length = max(len(sample.ids) for sample in samples)
    ids = torch.zeros((len(samples), length), dtype=torch.long)
    rows, targets, weights = [], [], []
    for i, sample in enumerate(samples):
        ids[i, : len(sample.ids)] = torch.tensor(sample.ids)
        for j, weight in enumerate(sample.weights):
            if weight:
                rows.append(i * length + j - 1)
                targets.append(sample.ids[j])
                weights.append(weight)
    return Batch(ids, torch.tensor(rows), torch.tensor(targets), torch.tensor(weights))


class Stream:
    """An endless stream of batches of about `tokens` tokens; `share` (0..1) is how far the run has come."""

    def __init__(self, me: str, tokenizer: Tokenizer, seed: int, tokens: int) -> None:
        self.draw = Draw(random.Random(seed), me, pieces(tokenizer))
        self.tokenizer = tokenizer
        self.tokens = tokens
        self.share = 0.0
        self.waiting: dict[int, list[Sample]] = {}

    def sample(self) -> Sample:
        if self.share < 0.12 and self.draw.rng.random() < 0.5 * (1 - self.share / 0.12):
            return doubled(self.draw.rng, len(self.tokenizer.pieces))
        return encode(mix.conversation(self.draw, long=self.share > 0.3), self.tokenizer)

    def batches(self) -> Iterator[Batch]:
        while True:
            sample = self.sample()
            size = len(sample.ids)
            if size > BUCKETS[-1]:
                continue
            bucket = next(limit for limit in BUCKETS if size <= limit)
            row = self.waiting.setdefault(bucket, [])
            row.append(sample)
            if len(row) * bucket >= self.tokens:
                self.waiting[bucket] = []
                yield collate(row)
