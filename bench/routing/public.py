"""`python -m bench.routing.public --data DIR`: routing by difficulty on tables that others published.

Tables of questions that two models answered, one cheaper and one stronger, with who was right. They are fetched, not
kept here: `--data DIR` has clones of the repositories (`git clone https://github.com/OWNER/NAME DIR/OWNER/NAME`), and
`--fetch` clones what is missing. What cannot be had is left out, and the reason is said.

Each policy gives every question a number: the higher, the sooner it goes to the strong model. What it learns from is of
other sources than what it is measured on: other subjects of MMLU, other sets of RouterArena; GSM8K and MT-Bench are not
learned from at all.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.figures import table
from bench.routing.resample import Figure
from bench.routing.sessions import place_of

ROUTELLM, ARENA = "lm-sys/RouteLLM", "RouteWorks/RouterArena"
NOT_HAD = {
    "withmartian/routerbench": "its repository has the code; the tables are on a model hub",
    "ulab-uiuc/LLMRouter": "its tables are not read yet",
}
WEAK, STRONG = "mistralai/Mixtral-8x7B-Instruct-v0.1", "gpt-4-1106-preview"
PRICES = {WEAK: 0.24, STRONG: 24.7}
"""Of a million tokens, as RouteLLM's paper has them (2406.18665)."""
PUBLISHED = {"MMLU": 0.60, "GSM8K": 0.62, "MT-Bench": 0.80}
"""RouteLLM's best APGR there; its routers learned from 80,000 preferences, and from answers like these."""
POINT = 0.01
TIMES = 400
BUCKETS = 2_048
NEIGHBOURS = 40


class Row(NamedTuple):
    """One question: how well the two models did, 0 to 1, and what each cost."""

    source: str
    text: str
    weak: float
    strong: float
    weak_cost: float
    strong_cost: float
    checked: bool | None = None
    """Whether the weak answer passed the check that needs no model; None: there is none."""


class Table(NamedTuple):
    name: str
    measured: list[Row]
    learned: list[Row]


# -- the tables --------------------------------------------------------------------------------------------------------


def _show(git_dir: Path, path: str) -> str:
    place = git_dir / ".git" if (git_dir / ".git").exists() else git_dir
    done = subprocess.run(["git", f"--git-dir={place}", "show", f"HEAD:{path}"], capture_output=True, check=True)
    return done.stdout.decode()


def _names(git_dir: Path, under: str) -> list[str]:
    place = git_dir / ".git" if (git_dir / ".git").exists() else git_dir
    words = ["git", f"--git-dir={place}", "ls-tree", "-r", "--name-only", "HEAD", under]
    return subprocess.run(words, capture_output=True, check=True).stdout.decode().split()


def _half(name: str) -> bool:
    return hashlib.blake2b(name.encode(), digest_size=1).digest()[0] % 2 == 0


def _of_csv(text: str, source: str) -> Iterator[Row]:
    csv.field_size_limit(10_000_000)
    for one in csv.DictReader(io.StringIO(text)):
        weak, strong = (float(one[name] == "True") for name in (WEAK, STRONG))
        answer = one.get(f"{WEAK}_response")
        yield Row(
            source,
            one["prompt"],
            weak,
            strong,
            PRICES[WEAK],
            PRICES[STRONG],
            None if answer is None else adds_up(answer),
        )


_SUM = re.compile(r"<<([\d.+*/()% -]{1,80})=\s*(-?[\d.,]+)>>")


def adds_up(answer: str) -> bool:
    """Whether a worked answer ends with a number, and each sum that it marks is right."""
    if re.search(r"####\s*\$?-?[\d.,]*\d", answer) is None:
        return False
    for left, right in _SUM.findall(answer):
        if "**" in left or "//" in left or "%" in left:
            continue
        try:
            value = eval(left, {"__builtins__": {}})
        except (SyntaxError, ZeroDivisionError, TypeError):
            return False
        if abs(value - float(right.replace(",", "").rstrip("."))) > 0.02 * max(1.0, abs(value)):
            return False
    return True


def routellm(git_dir: Path) -> list[Table]:
    folder = "routellm/evals/mmlu/responses"
    mmlu = [row for name in _names(git_dir, folder) for row in _of_csv(_show(git_dir, name), Path(name).stem)]
    learned = [row for row in mmlu if _half(row.source)]
    gsm8k = list(_of_csv(_show(git_dir, "routellm/evals/gsm8k/gsm8k_responses.csv"), "gsm8k"))
    found = [Table("MMLU", [row for row in mmlu if not _half(row.source)], learned), Table("GSM8K", gsm8k, learned)]
    return [*found, Table("MT-Bench", list(_mt_bench(git_dir)), learned)]


def _mt_bench(git_dir: Path) -> Iterator[Row]:
    scores: dict[tuple[Any, Any], dict[str, float]] = {}
    texts: dict[tuple[Any, Any], str] = {}
    for line in _show(git_dir, "routellm/evals/mt_bench/judgements.jsonl").splitlines():
        one = json.loads(line)
        key = one["question_id"], one.get("turn", 1)
        asked = one["user_prompt"].split("### User:\n")[1:]
        if asked:
            texts[key] = asked[-1].split("### Assistant A:")[0].strip()
        elif "[Question]" in one["user_prompt"]:
            texts[key] = one["user_prompt"].split("[Question]\n")[1].split("[The Start")[0].strip()
        scores.setdefault(key, {})[one["model"]] = one["score"] / 10
    for key, by in scores.items():
        if WEAK in by and STRONG in by and key in texts:
            yield Row("mt-bench", texts[key], by[WEAK], by[STRONG], PRICES[WEAK], PRICES[STRONG])


def arena(git_dir: Path) -> list[Table]:
    both: list[dict[str, Any]] = []
    for name in ("claude-3-haiku-20240307", "gemini-2.0-flash-001"):
        lines = _show(git_dir, f"cached_results/{name}.jsonl").splitlines()
        both.append({one["global_index"]: one for one in map(json.loads, lines) if one.get("evaluation_result")})
    rows = []
    for key in both[0].keys() & both[1].keys():
        results = [one[key]["evaluation_result"] for one in both]
        scores = [float(one["score"]) for one in results]
        costs = [float(one["inference_cost"]) for one in results]
        rows.append(Row(str(key).rsplit("_", 1)[0], both[0][key]["question"], scores[0], scores[1], costs[0], costs[1]))
    rows.sort(key=lambda row: row.text)
    return [
        Table("RouterArena", [one for one in rows if not _half(one.source)], [one for one in rows if _half(one.source)])
    ]


# -- the policies: a number for each question --------------------------------------------------------------------------

_WORD = re.compile(r"[^\W_]+|[^\w\s]")


def cheap(text: str) -> list[float]:
    """Twelve features that cost microseconds."""
    words = text.split()
    size = len(text) or 1
    return [
        1.0, np.log1p(len(words)), np.log1p(size), sum(map(len, words)) / (len(words) or 1),
        sum(one.isdigit() for one in text) / size, np.log1p(len(re.findall(r"\d+(?:\.\d+)?", text))),
        text.count("?"), np.log1p(text.count("\n")), float("$" in text or "\\" in text),
        np.log1p(len(re.findall(r"[=+*/^<>]", text))), sum(one.isupper() for one in text) / size,
        float(re.search(r"\b(?:not|except|false|incorrect|least)\b", text, re.I) is not None),
    ]  # fmt: skip


def hashed(texts: Sequence[str]) -> np.ndarray:
    """Words and pairs of words in BUCKETS, by how often they occur: `log(1 + n)`, each row of length 1 after `idf`."""
    found = np.zeros((len(texts), BUCKETS), np.float32)
    for at, text in enumerate(texts):
        words = [word.lower() for word in _WORD.findall(text)][:600]
        for word in (*words, *(f"{a} {b}" for a, b in pairwise(words))):
            found[at, int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest()) % BUCKETS] += 1
    return np.log1p(found)


def _normal(counts: np.ndarray, idf: np.ndarray) -> np.ndarray:
    weighted: np.ndarray = counts * idf
    weighted /= np.maximum(np.linalg.norm(weighted, axis=1, keepdims=True), 1e-9)
    return weighted


def _ridge(x: np.ndarray, y: np.ndarray, strength: float) -> np.ndarray:
    return np.linalg.solve(x.T @ x + strength * np.eye(x.shape[1], dtype=x.dtype), x.T @ y)


def _logistic(x: np.ndarray, y: np.ndarray, steps: int = 25) -> np.ndarray:
    """Newton's method with a little shrinkage."""
    weights = np.zeros(x.shape[1])
    for _ in range(steps):
        p = 1 / (1 + np.exp(-(x @ weights)))
        gradient = x.T @ (p - y) + 1e-2 * weights
        hessian = (x * (p * (1 - p))[:, None]).T @ x + 1e-2 * np.eye(x.shape[1])
        weights -= np.linalg.solve(hessian, gradient)
    return weights


def gap(rows: Sequence[Row]) -> np.ndarray:
    return np.array([row.strong - row.weak for row in rows])


def numbers(data: Table, classes: Callable[[str], str]) -> dict[str, np.ndarray]:
    """For each policy a number for each question that is measured."""
    learned, measured = data.learned, data.measured
    wins = gap(learned)
    found: dict[str, np.ndarray] = {}
    of_learned, of_measured = [classes(row.text) for row in learned], [classes(row.text) for row in measured]
    by_class: dict[str, float] = {
        name: float(np.mean([win for win, one in zip(wins, of_learned, strict=True) if one == name]))
        for name in set(of_learned)
    }
    mean = float(np.mean(wins))
    found["by class, as Stoker has them"] = np.array([by_class.get(name, mean) for name in of_measured])
    sizes = np.array([[len(row.text)] for row in measured], float)[:, 0]
    found["longer is harder"] = sizes
    cheap_l, cheap_m = (np.array([cheap(row.text) for row in rows]) for rows in (learned, measured))
    centre, spread = cheap_l.mean(0), cheap_l.std(0) + 1e-9
    centre[0], spread[0] = 0.0, 1.0
    cheap_l, cheap_m = (cheap_l - centre) / spread, (cheap_m - centre) / spread
    found["logistic, cheap features"] = cheap_m @ _logistic(cheap_l, (wins > 0).astype(float))
    words_l, words_m = hashed([row.text for row in learned]), hashed([row.text for row in measured])
    idf = np.log((1 + len(learned)) / (1 + (words_l > 0).sum(0))) + 1
    tfidf_l, tfidf_m = _normal(words_l, idf.astype(np.float32)), _normal(words_m, idf.astype(np.float32))
    near = np.zeros(len(measured))
    for at in range(0, len(measured), 512):
        alike = tfidf_m[at : at + 512] @ tfidf_l.T
        k = min(NEIGHBOURS, alike.shape[1])
        best = np.argpartition(-alike, k - 1, axis=1)[:, :k]
        near[at : at + 512] = wins[best].mean(1)
    found[f"{NEIGHBOURS} nearest, TF-IDF"] = near
    joined_l = np.hstack([tfidf_l, cheap_l.astype(np.float32) * 0.1])
    joined_m = np.hstack([tfidf_m, cheap_m.astype(np.float32) * 0.1])
    found["words and cheap features, ridge"] = joined_m @ _ridge(joined_l, wins.astype(np.float32), 3.0)
    by_set: dict[str, float] = {}
    for name in {row.source for row in measured}:
        by_set[name] = float(np.mean([row.strong - row.weak for row in measured if row.source == name]))
    found["best per set, in hindsight"] = np.array([by_set[row.source] for row in measured])
    if all(row.checked is not None for row in measured):
        found["cascade: the sums are checked"] = np.array([0.0 if row.checked else 1.0 for row in measured])
    found["oracle"] = gap(measured) - 1e-6 * np.array([row.strong_cost for row in measured])
    return found


# -- the figures -------------------------------------------------------------------------------------------------------


class Line(NamedTuple):
    policy: str
    apgr: Figure
    share: Figure
    """Of strong calls, at the least cost at which quality is at most a point below always strong."""
    saved: float
    """Of the cost of always strong, at that share; a cascade pays for the weak answer too."""
    aiq: float


def _curve(
    order: np.ndarray, groups: np.ndarray, weight: np.ndarray, weak: np.ndarray, strong: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Share of strong calls and quality, from none to all. Equal numbers are one step: between, they are mixed."""
    w, gains = weight[order], (weight * (strong - weak))[order]
    total = w.sum()
    shares, quality = np.cumsum(w) / total, (weight @ weak + np.cumsum(gains)) / total
    ends = np.append(np.flatnonzero(np.diff(groups)), len(order) - 1)
    return np.insert(shares[ends], 0, 0.0), np.insert(quality[ends], 0, weight @ weak / total)


def _measures(shares: np.ndarray, quality: np.ndarray) -> tuple[float | None, float]:
    """APGR; and the least share at which the quality is at most a point below that of the last point."""
    first, last = quality[0], quality[-1]
    area = float(np.trapezoid(quality, shares))
    apgr = None if last <= first else (area - first) / (last - first)
    good = np.flatnonzero(quality >= last - POINT)
    at = int(good[0])
    if at == 0:
        return apgr, 0.0
    rise = quality[at] - quality[at - 1]
    part = 1.0 if rise <= 0 else (last - POINT - quality[at - 1]) / rise
    return apgr, float(shares[at - 1] + (shares[at] - shares[at - 1]) * part)


def line(name: str, rows: Sequence[Row], score: np.ndarray, seed: int, times: int = TIMES) -> Line:
    weak, strong = (np.array([getattr(row, name) for row in rows]) for name in ("weak", "strong"))
    costs = np.array([row.weak_cost for row in rows]), np.array([row.strong_cost for row in rows])
    order = np.argsort(-score, kind="stable")
    ones = np.ones(len(rows))
    shares, quality = _curve(order, score[order], ones, weak, strong)
    apgr, share = _measures(shares, quality)
    rng = np.random.default_rng(seed)
    drawn = [
        _measures(
            *_curve(order, score[order], rng.multinomial(len(rows), ones / len(rows)).astype(float), weak, strong)
        )
        for _ in range(times)
    ]
    taken = order[: round(share * len(rows))]
    paid = costs[0].sum() - costs[0][taken].sum() + costs[1][taken].sum()
    if name.startswith("cascade"):
        paid += costs[0][taken].sum()
    hull = np.maximum.accumulate(quality)
    return Line(
        name, _figure(apgr, [one for one, _ in drawn]), _figure(share, [one for _, one in drawn]),
        float(1 - paid / costs[1].sum()), float(np.trapezoid(hull, shares)),
    )  # fmt: skip


def _figure(value: float | None, drawn: Sequence[float | None]) -> Figure:
    seen = sorted(one for one in drawn if one is not None)
    if not seen or len(seen) < 0.95 * len(drawn):
        return Figure(value, None, None)
    return Figure(value, seen[int(0.025 * len(seen))], seen[min(len(seen) - 1, int(0.975 * len(seen)))])


def shown(data: Table, lines: Sequence[Line]) -> str:
    weak, strong = (float(np.mean([getattr(row, name) for row in data.measured])) for name in ("weak", "strong"))
    head = ("policy", "APGR", "strong calls at 1 point below", "saved there", "AIQ")
    rows = [
        (one.policy, _spread(one.apgr, 2), _spread(one.share, 2), f"{100 * one.saved:.0f} %", f"{one.aiq:.3f}")
        for one in lines
    ]
    published = f" RouteLLM's best published APGR: {PUBLISHED[data.name]:.2f}." if data.name in PUBLISHED else ""
    said = (
        f"**{data.name}**: {len(data.measured)} questions of {len({row.source for row in data.measured})} sets; "
        f"learned from {len(data.learned)} of other sets. Always weak {100 * weak:.1f} %, always strong "
        f"{100 * strong:.1f} %.{published}"
    )
    return f"{said}\n\n{table(head, rows)}"


def _spread(one: Figure, digits: int) -> str:
    if one.value is None:
        return "no gap"
    if one.low is None or one.high is None:
        return f"{one.value:.{digits}f}"
    return f"{one.value:.{digits}f} ({one.low:.{digits}f} to {one.high:.{digits}f})"


def _classes() -> Callable[[str], str]:
    from stoker.domain.routing import RouterSettings
    from stoker.domain.task import Outline
    from stoker_auto.routing.classes import TaskClasses

    classes = TaskClasses(RouterSettings(()))
    return lambda text: (
        classes.classify_declared(
            classes.with_tokens(Outline(text=text, size=len(text.encode())), None), "auto", None
        ).name
    )


OPENING, CLOSING = "<!-- bench.routing.public -->", "<!-- /bench.routing.public -->"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.routing.public", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="clones of the repositories with the tables"
    )
    parser.add_argument("--fetch", action="store_true", help="clone what is missing")
    parser.add_argument("--seed", type=int, default=7, help="of the intervals and of chance")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the tables between the marks of this page")
    given = parser.parse_args(argv)
    parts = []
    for repository, read in ((ROUTELLM, routellm), (ARENA, arena)):
        place = place_of(given.data, repository) or (fetched(given.data, repository) if given.fetch else None)
        if place is None:
            parts.append(
                f"**{repository}**: left out, there is no clone of it "
                f"(`git clone https://github.com/{repository} {given.data}/{repository}`)."
            )
            continue
        for data in read(place):
            sys.stderr.write(f"{data.name}: {len(data.measured)} questions\n")
            scores = numbers(data, _classes())
            chance = np.random.default_rng(given.seed).random(len(data.measured))
            lines = [
                line(name, data.measured, score, given.seed) for name, score in {"chance": chance * 0, **scores}.items()
            ]
            parts.append(shown(data, lines))
    parts += [f"**{name}**: left out, {why}." for name, why in NOT_HAD.items()]
    text = "\n\n".join(parts)
    if given.page is not None:
        before, _, rest = given.page.read_text().partition(OPENING)
        given.page.write_text(f"{before}{OPENING}\n{text}\n{CLOSING}{rest.partition(CLOSING)[2]}")
    print(text)
    return 0


def fetched(data: Path, repository: str) -> Path | None:
    """A clone of a public repository, or None and the reason on stderr."""
    place = data / repository
    done = subprocess.run(
        ["git", "clone", "--quiet", f"https://github.com/{repository}", str(place)], capture_output=True, check=False
    )
    if done.returncode:
        sys.stderr.write(f"{repository}: {done.stderr.decode(errors='replace').strip()}\n")
        return None
    return place


if __name__ == "__main__":
    sys.exit(main())
