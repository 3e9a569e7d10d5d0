"""Are the documents in step with the code? Links resolve, named tests exist, and the pages name what routing shows.

Each command of a page is classified: run by a test, or a reason not to. What routing shows is every field of a routed
decision, every key of `routing` in /status, every check, verdict and mode.

Prints each problem as FILE: what, and exits 1 if there is one.
"""

from __future__ import annotations

import re
import runpy
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import docs_links
import msgspec

from stoker.domain.decision import Attempt, Routed
from stoker.domain.routing import ClassifierModelSettings, RouterSettings, ShadowSettings
from stoker.domain.run import Fingerprint
from stoker.domain.tier import ProfileRow, Tier, Verdict, Verify
from stoker.request.lease import commands
from stoker_auto.counts import RoutedCounts
from stoker_auto.quality.classifier_model import OUTCOMES
from stoker_auto.quality.classifier_model import status as told_by
from stoker_auto.quality.judge import DROPS as OF_THE_JUDGE
from stoker_auto.quality.shadow import DROPS
from stoker_auto.quality.shadow import status as graded
from stoker_auto.routing.router import TierRouter
from stoker_auto.routing.tier_quality import TierQuality
from stoker_content.verify.finding import CHECKS

ROOT = Path(__file__).resolve().parent.parent
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
MODULE = re.compile(r"`(?:src/stoker/)?([a-z_]+/[\w/]+\.py)`")
LEAVES = re.compile(r"/root/|/tmp/v/|127\.0\.0\.1:\d+/simple|pypi\.org|files\.pythonhosted")


def main() -> int:
    problems = [*(problem for page in pages() for problem in check(page)), *unclassified(), *out_of_navigation()]
    for page, name in names_of_routing():
        if f"`{name}`" not in (ROOT / "docs" / page).read_text():
            problems.append(f"docs/{page}: does not name `{name}`")
    print("\n".join(problems) or "docs in step")
    return 1 if problems else 0


def pages() -> list[Path]:
    folders = ("*.md", "docs/**/*.md", "bench/*.md", "tests/*.md", "tests/data/**/*.md", "training/*.md")
    return sorted(page for folder in folders for page in ROOT.glob(folder))


def check(page: Path) -> list[str]:
    text = page.read_text()
    name = page.relative_to(ROOT)
    problems = docs_links.problems(page, ROOT)
    for path, test in TEST.findall(text):
        file = ROOT / path
        if not file.exists():
            problems.append(f"{name}: names {path}, which is not there")
        elif test and f"def {test}" not in file.read_text() and f"class {test}" not in file.read_text():
            problems.append(f"{name}: names {path}::{test}, which is not in it")
    rooms = {path.name for path in (ROOT / "src/stoker").iterdir()}
    for module in MODULE.findall(text):
        if "NAME" not in module and module.split("/")[0] in rooms and not (ROOT / "src/stoker" / module).exists():
            problems.append(f"{name}: names {module}, which is not there")
    problems += [f"{name}: names {found}" for found in LEAVES.findall(text)]
    return problems


def unclassified() -> list[str]:
    """The commands on the pages of which tests/docs does not know what runs them."""
    shown, steps, tables = (
        runpy.run_path(str(ROOT / f"tests/docs/{n}.py")) for n in ("commands", "steps", "classified")
    )
    known = {*tables["ELSEWHERE"], *tables["NOT_RUN"], *(step.text for step in steps["STEPS"])}
    what = (
        "is not classified: run it in tests/docs/steps.py, or say in tests/docs/classified.py what runs it, or why not"
    )
    return [f"{one.page}:{one.line}: `{one.text}` {what}" for one in shown["commands"]() if one.text not in known]


def out_of_navigation() -> list[str]:
    """The pages that the site's navigation does not have, and those that it has and that are not there."""
    site = ROOT / "scripts" / "docs_site" / "site.toml"
    listed = set(re.findall(r'"([\w./-]+\.md)"', site.read_text(encoding="utf-8"))) - {"index.md", "changelog.md"}
    there = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")} - {"README.md"}
    return [f"docs/{one}: is not in the navigation, {site.relative_to(ROOT)}" for one in sorted(there - listed)] + [
        f"{site.relative_to(ROOT)}: names {one}, which is not there"
        for one in sorted(listed - there)
        if not (ROOT / one).is_file()
    ]


def names_of_routing() -> Iterator[tuple[str, str]]:
    """Each name that routing shows to users, with the page that has to have it."""
    for part, kind in (("routed", Routed), ("routed.attempts", Attempt)):
        yield from (("reference/decisions.md", f"{part}.{field.name}") for field in msgspec.structs.fields(kind))
    command_names = (name for name, kind in vars(commands).items() if hasattr(kind, "_fields"))
    yield from (("how-it-works/scheduling.md", name) for name in command_names)
    yield from (("reference/http.md", name) for name in keys(shown(), "routing"))
    yield from (("how-it-works/routing.md", word) for words in (CHECKS, Verify) for word in words)
    yield from (("guides/route-by-quality.md", word) for word in Verdict)
    yield from (("guides/grade-live-answers.md", word) for words in (DROPS, OF_THE_JUDGE) for word in words)
    yield from (("guides/classifier-model.md", word) for word in OUTCOMES)


def keys(document: dict[str, object], path: str) -> Iterator[str]:
    """Of lists the keys of the first entry, where the list's own row does not name them."""
    for name, value in document.items():
        yield f"{path}.{name}"
        first = value[0] if isinstance(value, list) and value else None
        if isinstance(first, dict):
            yield from (key if name == "stale" else f"{path}.{name}.{key}" for key in first)
        if isinstance(value, dict):
            yield from keys(value, f"{path}.{name}")


def shown() -> dict[str, object]:
    """`routing` of /status with an entry in each of its lists."""
    tier = Tier("tier", "serve")
    row = ProfileRow(tier.name, "chat", "before", "before", 27, 27, Verdict.ALLOW)
    tier_quality = TierQuality({(tier.name, "chat"): row})
    tier_quality.on_configured({tier.serve: Fingerprint("now", "now")})
    router = TierRouter(RouterSettings((tier,)), [], tier_quality, Nobody(), lambda: 0.0)
    companion = told_by(ClassifierModelSettings("serve"), "", Counter())
    return {**router.status(), "shadow": graded(ShadowSettings(0.1), RoutedCounts(), 0, 0.0), "classifier": companion}


class Nobody:
    """A fleet in which nothing runs."""

    def is_loaded(self, name: str) -> bool:
        return False

    def displaces(self, name: str) -> bool:
        return False

    def unavailable_reason(self, name: str, now: float) -> str:
        return ""


if __name__ == "__main__":
    sys.exit(main())
