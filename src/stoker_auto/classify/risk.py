"""What can a wrong answer to this request break? By the words of the request, where tools can change files. Pure.

How hard a request is says nothing of its risk: a question about a migration is no migration, and deleting a folder is
easy. A request is read sentence by sentence; questions, and what it says not to do, are left out.

| a sentence asks to                                                       | it is                   |
|--------------------------------------------------------------------------|-------------------------|
| refactor, rewrite, migrate, port, upgrade; rename or replace many things | `broad`                 |
| change what is everywhere, across or throughout something                | `broad`                 |
| build something that spans several layers, as a list of demands          | `broad`                 |
| delete files, folders, branches, data; force, reset, revert              | `deletes`               |
| migrate or change a schema, a database, its data                         | `data`                  |
| deploy, release, publish; change production or infrastructure            | `deploys`               |
| change logins, permissions, secrets, payments                            | `security`              |
| decide how something will be built: a plan, a design, an architecture    | `plans`                 |
| do what a plan, a task or an earlier session says                        | `unseen`                |

Work on documents, comments and looks is harmless, and so is a request that only asks, looks, runs, commits or reports,
if none of its sentences holds a word of damage (`--force`, `drop table`, `.env`). What was pasted makes nothing
harmless, and may make it risky. English only: of another language nothing is said (UNREAD).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from stoker_auto.classify.continuing import Continues, continues
from stoker_auto.classify.verbs import words

MOST_READ = 2_400
"""Characters that are read: of a longer text its beginning and its end."""
MOST_SENTENCES = 24
SHORT = 240
"""Characters of a request that may only say yes, or go on."""
LAST_OFFERED = 12
"""Sentences at the end of what a model wrote that may offer something."""
MOST_SENTENCE = 240
"""Characters of one sentence."""
FEW_WORDS = 6
"""Of so few words one has to be English, and of no other language."""
FEW_OFFERED = 3
"""Words of so short a text offer nothing ("Done.")."""
MANY_PARTS = 2
"""Kinds of parts of a program, in one sentence that asks for one change, from which on it may be broad."""
MANY_LAYERS = 3
MANY_DEMANDS = 5


class Grade(Enum):
    RISKY = "risky"
    HARMLESS = "harmless"
    """It is seen what is asked for, and that breaks little."""
    OPEN = "open"
    """It says yes, or go on: it is what it goes on with."""
    OTHER = "other"
    """Nothing says that it is risky, and nothing that it is not."""
    UNREAD = "unread"
    """It is in a language that these rules do not know."""


MAY_BE_BROAD = "may_be_broad"


class Asked(NamedTuple):
    grade: Grade
    why: str = ""
    """In one word."""


def asked(text: str) -> Asked:
    """What a request asks for. At most MOST_READ characters are read; never raises. Nothing is HARMLESS of which a part
    was not read.
    """
    is_cut = len(text) > MOST_READ
    if is_cut:
        text = f"{text[: MOST_READ // 2]}\n{text[-MOST_READ // 2 :]}"
    shown, pasted = _plain(text)
    if (why := _whole(shown)) is not None:
        return Asked(Grade.RISKY, why)
    found = _shown(shown, bool(text.strip()))
    if found.grade is not Grade.RISKY and (why := _of_pasted(pasted)):
        return Asked(Grade.RISKY, why)
    return Asked(Grade.OTHER) if is_cut and found.grade in (Grade.HARMLESS, Grade.OPEN) else found


def _shown(shown: str, has_text: bool) -> Asked:
    """The grade of what the person wrote. `has_text`: of a text that is not empty, though nothing of it may be left."""
    if not shown:
        return Asked(Grade.OTHER) if has_text else Asked(Grade.OPEN)
    if not _is_english(shown):
        reads = _damages if _is_foreign(shown) else _risk
        found_here = next(filter(None, map(reads, _sentences(shown)[0])), "")
        return Asked(Grade.RISKY, found_here) if found_here else Asked(Grade.UNREAD)
    if len(shown) <= SHORT and _THANKS.fullmatch(shown):
        return Asked(Grade.HARMLESS, "thanks")
    if len(shown) <= SHORT and (continues(shown) in (Continues.ONLY, Continues.GOES_ON) or _YES.fullmatch(shown)):
        return Asked(Grade.OPEN)
    sentences, is_whole = _sentences(shown)
    found = [_sentence(one) for one in sentences]
    for one in found:
        if one.grade is Grade.RISKY:
            return one
    if (why := _spans(shown, len(sentences))) is not None:
        return Asked(Grade.RISKY, why)
    grades = {one.grade for one in found if one.grade is not Grade.OPEN}
    if not grades:
        return Asked(Grade.OPEN) if found else Asked(Grade.OTHER)
    if grades == {Grade.HARMLESS} and is_whole:
        whys = [one.why for one in found if one.grade is Grade.HARMLESS]
        return Asked(Grade.HARMLESS, "reports" if "reports" in whys else whys[0])
    return Asked(Grade.OTHER, MAY_BE_BROAD if any(one.why == MAY_BE_BROAD for one in found) else "")


def _of_pasted(lines: Sequence[str]) -> str:
    """The reason for which lines that look like those of programs are risky: they may be what is to be done."""
    for line in lines[:MOST_SENTENCES]:
        bare = _MARKS.sub("", line[:MOST_SENTENCE])
        if why := _damages(bare):
            return why
        if _CHANGE.match(_LEAD.sub("", bare)) and (why := _risky(bare)):
            return why
    return ""


def offers(said: str) -> str:
    """The end of what a model wrote, in which it may offer something."""
    return "\n".join(_sentences(_plain(said)[0])[0][-LAST_OFFERED:])


def offered(said: str) -> Asked:
    """What a model offers to do, by the end of what it wrote: the riskiest of its last sentences. HARMLESS if it offers
    nothing that is risky.
    """
    shown, pasted = _plain(said)
    last = _sentences(shown)[0][-LAST_OFFERED:]
    if len(_LETTERS.findall(said)) > FEW_OFFERED and not _is_english("\n".join(last)):
        return Asked(Grade.UNREAD)
    found = [_sentence(_OFFER.sub("", one)) for one in last]
    risky = next((one for one in found if one.grade is Grade.RISKY), None)
    if risky is not None:
        return risky
    if why := _of_pasted(pasted[-MOST_SENTENCES:]):
        return Asked(Grade.RISKY, why)
    other = next((one for one in found if one.grade is Grade.OTHER and one.why), None)
    return other or Asked(Grade.HARMLESS, "goes_on")


# -- the text ----------------------------------------------------------------------------------------------------------

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_PASTED = re.compile(
    r"^(?:[ \t]*(?:at |File \"|Traceback|\d+(?:[|:\u2192]|[ \t]{2,})|[|"
    r">+=~^$\u276f\u279c\u2502\u251c\u2514\u23bf\u2a2f%][ \t]?[^\n]*[{}()|;:/\\]|[\w.]{0,80}(?:Error|Exception|"
    r"WARN|INFO|ERROR|DEBUG)\b[:\]])"
    r"|[^\s@]{1,64}@[^\s@:~]{1,64}[:~]|\[(?!x?\])\w{1,40}\]|\[\d|[^\n]{0,60}(?:npm ERR|node_modules/|site-packages/))"
    r"[^\n]*$",
    re.MULTILINE,
)
"""Lines of programs: logs, stacks, prompts of shells. They make nothing harmless, and may make it risky: a person
begins lines like that, too.
"""
_MARKS = re.compile(
    r"^(?:[^\w\n/.]|\d{1,6}[|:\u2192.)]|\[\w+\]|[\w.]{0,80}(?:Error|Exception|WARN|INFO|ERROR|DEBUG)\b)+"
)
_URL = re.compile(r"https?://\S+")
_ENGLISH = words(
    "the a an to is are it this that and of in for on with we you i me my our your do does did can could please "
    "not no yes now what how why where when which should would will let's lets so if be was were have has just "
    "like as at by from or all make fix add create use run update remove delete change write go ok okay test "
    "tests continue file files code whats thanks thank next cool great good nice there their them then still "
    "error start commit push check show open try again also get "
)
_OTHERS = words(
    "le la les des du dans et est une pour avec sur pas que qui tous toutes der das und ist ein eine nicht mit "
    "für auf wir ich bitte alle dem el los las con por para todos todas una del il che non per gli della tutti um "
    "uma não com het een van voor nie jest się wszystkich ta bort och att det som på av för inte är jag kan ska från "
    "ett af og ikke til fra slett slet minden és hogy nem kaikki ja että ei tüm ve bir bu için semua di untuk dan yang"
)
"""Frequent words of other languages that are none of English."""
_IN_OTHERS_TOO = words("a i an in so as is on do we all be or at to me no")
"""Frequent English words that are words of other languages as well: they do not make a text of few words English."""
_LETTERS = re.compile(r"[^\W\d_][\w'\u2019-]*")
_END = re.compile(r"(?<=[.!?;])\s+|\n+|(?<!\s)\s+[-\u2022*] (?=[a-zA-Z])|(?<!\s)\s+(?:and|,) then\s+|\.{3,}\s*")


def _plain(text: str) -> tuple[str, list[str]]:
    """The text without what was pasted into it; and the lines of that."""
    pasted: list[str] = []

    def without(found: re.Match[str]) -> str:
        pasted.extend(found[0].split("\n"))
        return " "

    return _URL.sub("LINK", _PASTED.sub(without, _FENCE.sub(without, text))).replace("\u2019", "'").strip(), pasted


def _is_english(text: str) -> bool:
    """Whether most letters are Latin, and some of the words are frequent English ones; few words are taken for it."""
    words = _LETTERS.findall(text[:1_500].lower())
    if not words:
        return text.isascii()
    if sum(word.isascii() for word in words) < 0.85 * len(words):
        return False
    if _is_foreign(text):
        return False
    known = [word for word in words if word in _ENGLISH]
    if len(words) > FEW_WORDS:
        return len(known) >= 0.12 * len(words)
    return any(word not in _IN_OTHERS_TOO for word in known)


def _is_foreign(text: str) -> bool:
    words = _LETTERS.findall(text[:1_500].lower())
    return sum(word in _OTHERS for word in words) > 0.05 * len(words)


def _sentences(text: str) -> tuple[list[str], bool]:
    """The sentences, and whether they are all and whole."""
    found = [part.strip(" \t,-*#\u2022") for part in _END.split(text)]
    found = [part for part in found if _LETTERS.search(part)]
    is_whole = len(found) <= MOST_SENTENCES and all(len(part) <= MOST_SENTENCE for part in found)
    if len(found) > MOST_SENTENCES:
        found = [*found[: MOST_SENTENCES // 2], *found[-MOST_SENTENCES // 2 :]]
    return [part[:MOST_SENTENCE] for part in found], is_whole


def _risk(sentence: str) -> str:
    found = _sentence(sentence)
    return found.why if found.grade is Grade.RISKY else ""


# -- one sentence ------------------------------------------------------------------------------------------------------


def _any(*words: str) -> str:
    return rf"(?:{'|'.join(words)})"


def _re(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_YES = _re(
    r"(?:y|n|[abc]|\d|option \w+|(?:yes|yep|yup|yeah|sure|ok|okay|great|perfect|"
    r"k+)?[,.! ]*(?:please )?(?:go (?:ahead|for it|with (?:it|that|option \w+))"
    r"|do (?:it|that|so|this)|try(?: it)? again|proceed|make it so|sounds good|let'?s (?:do|go for) (?:it|"
    r"that)|approved?|looks good|resume|keep at it"
    r"|continue|please|carry on|finish (?:it|this))?)[\W]*(?:please|then|now|thanks|thank you)?[\W]*"
)
"""Says yes, or chooses."""
_THANKS = _re(
    r"(?:(?:ok(?:ay)?|great|perfect|nice|cool|awesome|good|that works?|that worked|works|it works|ah|oh|"
    r"no)[,.! ]*)*(?:many )?(?:thanks?(?: you)?(?: (?:so|very) much| a lot)?|thx|ty|cheers)[\s.!:)]*"
)
_LEAD = _re(
    r"^(?:(?:ok(?:ay)?|great|good|nice|cool|now|so|and|also|then|please|pls|yes|yeah|yep|yup|sure|no|nope|"
    r"hey|hi|hello|well|right|alright|but|first|next"
    r"|actually|perfect|awesome|thanks?(?: you)?|sorry|fine|hmm+|k+)\b[,.!: -]*)+"
)
_POLITE = _re(
    r"^(?:can|could|would|will) (?:you|we|u|i)(?: (?:please|also|just|now|try to|go ahead and|"
    r"help me(?: to)?))* |^(?:i|we)(?:'d| would)? (?:like|want|need)"
    r"(?: you| us)? to |^let'?s (?:also |now |just |try to |do )?|^help me (?:to )?|^go ahead and |"
    r"^please |^you (?:should|need to|must|can) |^why (?:don't|not) (?:you|we) "
    r"|^(?:how|what) about |^(?:is|would|might) it (?:be )?(?:possible|ok(?:ay)?|"
    r"feasible) (?:for you )?(?:to|if you) |^is there (?:any |a )?(?:chance|way) (?:that )?(?:you|"
    r"we) (?:could|can) |^turns out we need to |^we (?:need to|should|have to|must) "
)
_QUESTION = _re(
    r"^(?!what (?:was|is|used to be) .*\b(?:should|must|becomes?)\b|is it possible|would it be|"
    r"is there (?:any |a )?chance)(?:what|what's|whats|where|why|who|whose|which|when|how|how's|is|are|am|"
    r"was|were|does|did|has|had|should (?:i|we)|do (?:you|we|i|they|all (?:the )?tests?|tests?|any)\b|"
    r"have (?:you|we|i|all|any)\b|"
    r"(?:can|could|would|will|shall) (?:i|it(?! be possible)|this|that|there|they)|any|anything|isn't|"
    r"aren't|doesn't|didn't|wasn't|won't|wouldn't)\b(?!.*\b(?:and|then|so) (?:please )?(?:fix|change|"
    r"implement|update|delete|remove|migrate)\b)"
    r"(?!(?: \w+){0,2} (?:i|we)(?:'d| would)? (?:want|need|like)\b)"
)
_MANY = _re(
    r"\b(?:every|everything|each|all(?! (?:good|right|done|set|tests? pass|fixed))|both|any(?:where|"
    r" place)|the (?:others?|rest|remaining|lot)|callers?|usages|call sites|occurrences|wherever|"
    r"throughout|everywhere|across|whole|entire|\d{2,} (?:\w+ )?(?:files|modules|places|classes|tests?|"
    r"services|"
    r"projects|scripts|views|usages|drivers)|two|three|four|five|six|seven|eight|nine|ten|twelve|"
    r"repositories|modules|services|packages|apps|codebase|crate|layers?)\b"
)
"""It may be many places."""
_NOT = _re(
    r"\b(?:do not|don't|dont|never|without|no need to|not (?:to|yet)|doesn'?t|didn'?t|won'?t|instead of|"
    r"rather than|avoid)\b.*?(?=,|\bbut\b|\bjust\b|$)"
)
_BREADTH = (
    r"(?:\b(?:whole|entire|all (?:of )?(?:the |our |my )?(?:\w+ )?(?:files?|modules?|services?|"
    r"components?|screens?|pages|endpoints?|routes?|callers?|usages?|references|imports|places|"
    r"packages?|apps?|code|classes|functions?|models?|controllers?|views?|consumers?|clients?|handlers?)|"
    r"every (?:file|module|service|component|screen|page|endpoint|route|place|call(?:er)?|class"
    r"|import|usage|package)|everywhere|wherever|across|throughout|code ?base|project[- ]wide|"
    r"repo(?:sitory)?[- ]wide|globally?)\b)"
)
_CODE = (
    r"\b(?:code(?:base)?|apis?|architecture|modules?|services?|packages?|backend|front ?end|server|"
    r"app(?:lication)?|project|repo(?:sitory)?|library|system|engine|layer|structure|components?|"
    r"monolith|framework|store|state management|navigation|routing|types?|interfaces?|classes|functions|"
    r"endpoints?|routes|tables?|schema|database|db|imports?|ui)\b"
)
_CHANGES = (
    r"\b(?:add|change|fix|implement|build|create|make|update|modify|improve|replace|move|rename|remove|"
    r"delete|convert|refactor|rework|redo|set ?up|configure|enable|disable|integrate|"
    r"introduce|extend|rewrite|write|allow|support|store|save|clean|debug|correct|resolve|apply|adjust|"
    r"switch|use|wire|hook|connect|merge|split|extract|migrate|edit|generate|install|"
    r"upgrade|patch|turn|put|set|drop|strip|simplify|finish|complete|handle|ensure|require|restrict|"
    r"protect|secure|encrypt|rotate|revoke|grant|hash|validate)(?:s|d|ed|ing)?\b"
)
_SMALL_OBJECT = (
    r"\b(?:this|that|the|a|one|my) (?:\w+ )?(?:function|method|line|script|message|sentence|paragraph|"
    r"comment|test|variable|constant|label|title|heading|button|query|loop|condition|regex|"
    r"helper|snippet|name|text|wording|section|card|modal|tooltip)\b(?! (?:across|everywhere|in (?:all|every)))"
)
_DOCUMENTS = (
    r"(?:\b(?:read ?me|docs?|documentation|change ?log|comments?|docstrings?|conventions|notes?|wiki|"
    r"guide|handoff|release notes|commit message|pr description|description|wording|typos?|"
    r"rules?|worklog|license file|spelling|grammar|markdown|summary|report|tl;?dr|checklist)\b|\.mdc?\b|"
    r"\.rst\b|\.txt\b)"
)
_LOOKS = (
    r"^(?:look|check|see|show|list|find|search|read|review|analy[sz]e|explain|describe|tell|summari[sz]e|"
    r"compare|inspect|explore|investigate|examine|count|print|display|open|run|re-?run|"
    r"start|launch|re-?launch|restart|build|compile|test|lint|try|verify|confirm|browse|take a (?:look|"
    r"screenshot)|give me|walk me|think|commit|push|git (?:commit|push|add|status|diff|log|pull)|"
    r"pull|fetch|clone|make sure (?:the )?tests?|suggest|comment on|remind|help me understand|understand|"
    r"note|remember|screenshot|measure|profile|grep)\b"
)
_LOCAL = (
    r"\b(?:button|icon|colou?rs?|font|padding|margin|spacing|space|size|width|height|opacity|background|"
    r"bold|text|label|title|header|headline|heading|footer|logo|image|mobile|layout|align\w*|"
    r"center(?:ed)?|scroll\w*|animation|style|styling|css|theme|card|badge|modal|tooltip|column|row|cell|"
    r"border|shadow|emoji|placeholder|nav ?bar|bottom tab|tab bar|status bar|menu|sidebar|link|"
    r"lint(?:er)?|warnings?|typo|log(?:s|ging)?|message|flag|screen|page|section|widget|row|form|field|typo)\b"
)

_NOT_AT_ALL = _re(
    r"\b(?:don'?t|do not|without) (?:implement|change|make any changes?|edit|write (?:any )?code|touch|"
    r"do) (?:anything|it|the plan|yet|any)"
)
_BROAD_ALONE = _re(
    r"\b(?:refactor\w*|re-?architect\w*|restructur\w*|re-?organi[sz]\w*|overhaul\w*|moderni[sz]\w*|"
    r"migrat(?:e|es|ing|ion)\b|rewrit\w*|re-?write\w*|rebuild|redesign\w*|port(?:ing)? (?:\w+ ){0,4}(?:to|"
    r"from)\b"
    r"|convert\w* (?:\w+ ){0,5}(?:to|into)|(?:upgrade|bump|update) (?:\w+ ){0,3}(?:to (?:v?\d|version|"
    r"the latest)|dependenc\w+|framework|version)|decoupl\w*|consolidat\w*)"
)
_REPLATFORM = _re(
    r"\b(?:change|switch|move|go back|convert|rewrite)(?: \w+){0,4} (?:to|in|into) (?:dotnet|\.net|c#|"
    r"python|py\b|rust|go\b|golang|typescript|javascript|java\b|kotlin|swift|react|vue|svelte|angular|"
    r"next|"
    r"postgres\w*|mysql|sqlite|mongo\w*|redis|graphql|grpc|kafka)"
)
_RENAMES = _re(
    r"\b(?:renam\w*|replac\w*|mov(?:e|ing)|swap\w*|switch\w*|extract\w*|split\w*|merge|unify|standardi[sz]e)\b"
)
_MANY_RENAMED = _re(
    _BREADTH + r"|\b(?:apis|modules|files|classes|packages|components|services|functions|endpoints|out of|"
    r"into (?:its|their|separate|a (?:new|shared|separate)))\b"
)
_DELETES = _re(
    r"\b(?:delet\w*|remov(?:e|es|ing|al)|drops?|purg\w*|wip(?:e|ing)|eras\w*|get rid of|clear(?: out)?|"
    r"prun\w*|discard|uninstall|nuke|trash|throw away|rip out|clean(?:ing)? ?up|cleanup)\b.{0,60}?"
    r"\b(?:files?|folders?|director\w+|branch(?:es)?|repo(?:sitory)?|database|db|tables?|columns? from|"
    r"data|records?|history|commits?|users?|accounts?|functions?|modules?|packages?|"
    r"dependenc\w+|classes|codebase|code base|everything|all of|backups?|volumes?|buckets?|instances?|"
    r"environments?|sessions?|servers?|dead code|endpoints?|services?|directory structure)\b"
    r"|\brm -rf?\b|--force\b|--hard\b|force[- ]push|\bgit (?:reset|clean|rebase|filter)|\bdelete (?:these|"
    r"them|those|all)\b"
    r"|\b(?:revert|roll ?back|undo|reset)\b.{0,40}\b(?:commits?|changes|everything|all|branch|migration|"
    r"database|db|that|this|repo)\b|\boverwrit\w+\b"
)
_DATA_ALONE = _re(r"\b(?:migration|schema|backfill|seed(?:ing)?|prisma migrate|alembic|shadow database)\b")
_DATA = _re(
    r"\b(?:databases?|db|tables?|sql|dummy data|foreign keys?|production data)\b(?! (?:row|view|cell|"
    r"layout|style|header|of contents))"
)
_DEPLOYS = _re(
    r"\b(?:deploy(?:ing|ment)?|release|publish|ship it|go live|roll ?out|terraform|kubernetes|k8s|helm|"
    r"ci/cd|production|in prod\b|to prod\b|vercel|fly\.io|aws|gcp|azure|nginx|dns|f-droid|"
    r"(?:git ?hub|ci) (?:action|workflow|pipeline)s?|tag (?:it|this|a release|on git ?hub)|docker ?file|"
    r"load balancer)\b"
)
_SECURITY = _re(
    r"\b(?:auth(?:entication|orization|n|z)?|o?auth2?|log ?in|sign[- ]?in|sign[- ]?up flow|passwords?|"
    r"passphrase|permissions?|roles?|access control|rbac|tokens?|jwt(?:_\w+)?|cookies?|secrets?|"
    r"credentials?|"
    r"api keys?|private keys?|encrypt\w*|decrypt\w*|certificates?|csrf|xss|cors|vulnerab\w*|security|"
    r"payments?|billing|stripe|checkout|invoices?|refunds?|wallets?|subscription|2fa|mfa|sso)\b"
)
_SECURITY_WORK = _re(
    r"\b(?:not working|fails?|failing|broken|invalid|missing|wrong|not getting|are not|is not|must be|"
    r"detected|issues?|rejects?|incorrectly)\b"
)
_LOOKS_ONLY_OF = _re(
    r"\b(?:button|page|form|screen|icon|label|title|link|colou?r|font|style|layout|text|wording|"
    r"design tokens?|theme tokens?)\b"
)
_PLANS = _re(
    r"\b(?:(?:write|make|create|draft|propose|prepare|come up with|update|revise|develop|produce|give me|"
    r"need|do|lay out|outline) (?:\w+ |me ){0,5}?(?:plan|roadmap|architecture|design doc\w*|strategy|"
    r"prd|rfc|adr|technical design|proposal)\b|(?:plan|planning|design|architect) (?:out |for |how |the |"
    r"a |an |this |our )+\w+|plan of action|planning document|"
    r"start(?:ing)? (?:to )?think(?:ing)? (?:about|through)|broader design|what (?:would|"
    r"should) the (?:architecture|design)|going forward we)|plan\.md to (?:use|have|do|be|cover|add|"
    r"include)\b"
)
_UNSEEN = _re(
    r"\b(?:(?:start|begin|resume|continue|work|pick up|implement|execute|do|complete|"
    r"finish)(?: (?!docs?\b|files?\b|sense\b)\w+){0,2}? (?:on )?(?:task|ticket|issue|story|phase|"
    r"milestone|epic|step)s? (?:#?\d+|[a-z]+-\d+|one|two|three)|"
    r"(?:implement|execute|follow|carry out|build|apply|do|begin|work through|proceed (?:with|"
    r"to execute)) (?:\w+ ){0,3}?(?:plan|spec\w*|approach|design|proposal|todos?|to-?dos?|prd|"
    r"requirements|phase)|"
    r"(?:begin|start|started|let's|lets) (?:to )?(?:implement(?:ing)?(?: (?:it|this|that|them))?\W*$|"
    r"implementing|building|coding|the implementation|development|working)|pick up (?:from )?where|"
    r"where (?:we|you|i) left off|continue (?:dev|development|work|with the (?:plan|task|handoff|next))|"
    r"next (?:phase|milestone|epic|task)|hand-?off\S* continue|(?:implement|make|apply) (?:the )?(?:fixes|"
    r"changes) (?:so|which|that|you)|(?:do|execute|implement|proceed with|finish) (?:step|part|"
    r"phase) \w+\b|(?:tasks?|work|issue|changes?|todos?|plan|steps?) (?:is|are) (?:described|written|"
    r"listed|explained|specified|in|at)\b|do everything|make (?:the |any )?changes (?:which |that |"
    r"as )?you (?:feel|think|want|like))"
)
_NAME = _re(r"[\\@]*[\w/:.-]+\.mdc?[,.]?")
_OF_PLAN = _re(r"hand-?off|architecture|plan|prd|spec|todo|task")
_GOES_ON = words("please continue go on proceed resume and now ")
_LAYERS = tuple(
    _re(one)
    for one in (
        r"\bback ?end|\bserver\b|\bservice\b",
        r"\bfront ?end|\bui\b|\bscreens?\b|\bpages?\b",
        r"\bapi\b|\bendpoints?\b|\broutes?\b",
        r"\bdatabase\b|\bschema\b|\btables?\b|\bmodels?\b|\bpersist\w*",
        r"\bauth\w*|\blogin\b|\bpermissions?\b",
        r"\bnavigation\b|\brout(?:er|ing)\b",
        r"\bcach\w+|\bqueue|\bstate\b|\bstore\b|\bhooks?\b",
        r"\btests?\b",
        r"\bdeploy\w*|\bci\b|\bdocker",
        r"\bmulti-?(?:device|user|tenant|platform)|\bmobile\b.*\btv\b|\bsync\w*|\breal-?time",
        r"\bai\b|\brecogni\w+|\brecommend\w+|\bwhisper\b",
        r"\bpagination\b|\bfilters?\b|\bsearch\b",
    )
)  # fmt: skip
_LIMITED = _re(
    r"\b(?:only (?:edit|change|touch|modify|fix|update|tailwind|layout|ui)|edit only|ui only|(?:no|"
    r"without|not?) (?:data )?logic|no other (?:file|change)s?|do not touch|don'?t touch|nothing else|"
    r"only ui|placeholders?\b.*\bfiles"
    r"|no new code|just the|keep it simple|nothing complicated|client[- ]side only)\b"
)
_BUILDS = _re(r"\b(?:implement|build|create|add|develop|integrate|set ?up|introduce|enable|support)\w*\b")


_OFFER = _re(
    r"^.*?\b(?:would you like (?:me|us) to|do you want (?:me|us) to|want me to|shall (?:i|we)|should (?:i|"
    r"we)|i(?:'ll| will| can| could| would)|i'm going to|we (?:can|could|should)|"
    r"(?:ready|let me know (?:if|when) you(?:'d| would)? (?:like|want)(?: me)?) to|let's|"
    r"next(?: step)?s?:?|my plan is to|proceed with|go ahead with)\s+"
)


def _sentence(text: str) -> Asked:
    """The grade of one sentence. The order is that of the table of the module."""
    bare = _LEAD.sub("", text).strip()
    if not bare or _YES.fullmatch(bare):
        return Asked(Grade.OPEN)
    polite = _POLITE.match(bare)
    if polite is None and _QUESTION.match(bare) is not None:
        return Asked(Grade.HARMLESS, "asks")
    said = bare[polite.end() :] if polite else bare
    kept = _NOT.sub("", said)
    if not kept.strip():
        return Asked(Grade.OTHER)
    if why := _risky(kept):
        return Asked(Grade.RISKY, why)
    if not _SAYS_ONLY.match(kept) and (why := _damages(kept)):
        return Asked(Grade.RISKY, why)
    if _TOLD.match(bare):
        return Asked(Grade.HARMLESS, "reports")
    if _SAYS_ONLY.match(kept) and not _CHANGE_LATER.search(kept):
        return Asked(Grade.HARMLESS, "looks")
    if len(_PARTS.findall(kept)) >= MANY_PARTS or _OLD_NAME.search(kept):
        return Asked(Grade.OTHER, MAY_BE_BROAD)
    if _TO_DOCUMENT.match(kept):
        return Asked(Grade.HARMLESS, "documents")
    if _RESHAPES.search(kept):
        return Asked(Grade.OTHER, MAY_BE_BROAD)
    if _ADDS.match(kept) and not _TO_MANY.search(kept):
        return Asked(Grade.HARMLESS, "adds")
    if _CHANGE_LATER.search(kept) and _DOCUMENT.search(kept):
        return Asked(Grade.OTHER)
    if _LOOK.match(kept) and not _CHANGE_LATER.search(kept):
        return Asked(Grade.HARMLESS, "looks")
    if _MANY.search(kept) or _BROADLY.search(kept):
        return Asked(Grade.OTHER, MAY_BE_BROAD)
    if _DOCUMENT.search(kept) or _TASK.search(kept):
        return Asked(Grade.HARMLESS, "mentions")
    if polite is None and _REPORTS.match(bare) and not _WISHES.search(bare):
        return Asked(Grade.HARMLESS, "reports")
    if polite is None and bare.endswith("?"):
        return Asked(Grade.HARMLESS, "asks")
    if _POINTS.match(kept):
        return Asked(Grade.OPEN)
    if _FIX.match(kept):
        return Asked(Grade.HARMLESS, "small")
    is_local = _LOCALS.search(kept) or _SMALL.search(kept)
    return Asked(Grade.HARMLESS, "small") if is_local and len(kept) <= 200 else Asked(Grade.OTHER)


_SAYS_ONLY = _re(r"(?:explain|describe|tell (?:me|us)|show (?:me|us)|summari[sz]e|help me understand|walk me through) ")
_PARTS = _re(
    r"\b(?:schemas?|types|resolvers|queries|routes|tests?|configs?|handlers|serializers|controllers|views|"
    r"models|mappers|imports?|clients?|fixtures|components|services|modules|classes|endpoints|entities|"
    r"repos|strings|migrations|"
    r"polyfills|flags|branches|loggers|variables|identifiers|fields|columns|tables|enums?|interfaces?|"
    r"code|css|api|app|templates?|folders?|packages|everything|whatever|anything|any place|suffix|"
    r"names)\b(?= ?[,&/+;:]| and\b| alike\b|$| uses?\b| reads?\b| that\b)"
)
_OLD_NAME = _re(
    r"\bdrop support\b|\bis now (?:called|named)\b|\bdeprecated\b|\bno longer use|\b(?:should|"
    r"must) be called\b|\bsame (?:\w+ )?(?:in|for|to) the\b|\bthe way you did\b|\blike you did\b|"
    r"\b\w+s? too\b.*\bold\b|\bnew name\b|\bget rid of every|\bcopied into\b|\bcleanup\b|\bnot suppress\b"
)
_TO_DOCUMENT = _re(
    r"(?:update|add|write|improve|reorder|extend|create|make|fix|draft|generate|produce|suggest)\b[^,]{0,40}?"
    + _DOCUMENTS
    + r"(?!.*\band (?:the )?(?:code|routes|tests|clients|handlers)\b)"
)
_ADDS = _re(r"(?:create|generate|scaffold|write|add|set ?up|make (?:a|an|me)) ")
_TO_MANY = _re(
    r"\b(?:to|in|for|into|on|from|by) (?:every|each|all|both|the (?:other|rest|remaining)|our \w+s)\b|"
    r"\bboth\b|\bcallers\b|\bthread\b"
)
_RESHAPES = _re(
    r"\b(?:renam\w*|replac\w*|mov(?:e|es|ing) (?!.{0,40}\b(?:button|icon|text|logo|link|label|image|"
    r"title)\b|(?:it|this|that)\b)|split\w*|extract\w*|merg(?:e|ing)|convert\w*|fold|dedup\w*|hoist|lift|"
    r"inline|flatten|unify|thread\w*|swap\w*|propagat\w*|port|migrat\w*|adapt|"
    r"break (?:up|apart)|(?:cut|turn|push|pull|take|put|bring|gather|break|port|shift|change|"
    r"make) .*\b(?:apart|into|onto|over to|out of|from|down to|go away)|rework|benenne\w*|ersetz\w*|"
    r"ersetzen|rinomina|sostituisci|cancella)\b"
    r"|[\w`'\"] ?(?:->|\u2192|=>) ?[\w`'\"]|\b(?:instead of|rather than)\b"
)
"""It gives code another shape: how much of it is not seen."""
_REPORTS = _re(
    r"(?:i|i'm|i've|you|you're|it|it's|we|we're|they|there|there's|this|that|that's|the|still|no|nope|not|"
    r"nothing|for|here|here's|now|when|error|same)\b.*?(?:\b(?:is|are|was|were|am|see|seems?|got|get|gets|"
    r"getting|gave|keep|keeps|kept|"
    r"still|happen\w*|shows?|looks?|works?|worked|ran|run|tested|tried|updated|changed|made|opened|found|"
    r"think|understand|know|like|can't|cannot|could not|did|does|has|have|had)\b|n't\b|\bnot\b|'s\b|'re\b|"
    r"'m\b)"
)
_WISHES = _re(
    r"\b(?:want\w*|wish\w*|need(?:s|ed)? to|should|must|has to|have to|gets? to|let'?s|please|so (?:fix|"
    r"change|make)|can (?:you|we)|could (?:you|we)|ought|shall|may no longer|no longer|going to|supposed|"
    r"from now on|is now|are now|"
    r"becomes?|go(?:es)? away)\b"
)
_FIX = _re(r"(?:fix|try|retry|finish|undo|redo|repeat|change|correct) (?:it|this|that|them|the|these)?\b.{0,60}$")
_TOLD = _re(r"(?:note|error|warning|info|hint|observation|result|output) ?:")
_POINTS = _re(
    r"(?:fix|try|retry|finish|undo|redo|repeat|change|correct) (?:it|this|that|them|these)\b(?: \w+){0,3}\W*$"
)
"""It points at what was there before ("change it back")."""
_CHANGE, _LOCALS, _SMALL, _DOCUMENT, _LOOK = (
    _re(_CHANGES),
    _re(_LOCAL),
    _re(_SMALL_OBJECT),
    _re(_DOCUMENTS),
    _re(_LOOKS),
)
_CODES, _BROADLY = _re(_CODE), _re(_BREADTH)


def _risky(text: str) -> str:
    """The reason for which a sentence that asks for something is risky; empty: it is not."""
    if _UNSEEN.search(text):
        return "unseen"
    is_document = _DOCUMENT.search(text) is not None or _TASK.search(text) is not None
    if _PLANS.search(text) and not _LOCAL_PLAN.search(text) and not _TASK.search(text):
        return "plans"
    looks = _LOOK.match(text) is not None
    if (
        _DELETES.search(text)
        and not looks
        and not _LINT.search(text)
        and not (is_document and not re.search(r"--force|--hard|\brm -", text))
    ):
        return "deletes"
    if looks and not _CHANGE_LATER.search(text):
        return "deploys" if _DEPLOY_NOW.search(text) else ""
    if _TO_DOCUMENT.match(text) or _TASK.search(text):
        return ""
    if (_BROAD_ALONE.search(text) or _REPLATFORM.search(text)) and not (
        _SMALL.search(text) and not _BROADLY.search(text)
    ):
        return "broad"
    renames = _RENAMES.search(text)
    if renames is not None and _MANY_RENAMED.search(text, renames.end()) and not _LIMITED.search(text):
        return "broad"
    changes = _CHANGE.search(text) is not None
    if is_document:
        return ""
    if _DATA_ALONE.search(text) or (changes and _DATA.search(text)):
        return "data"
    if _DEPLOYS.search(text) and (changes or _DEPLOYED.search(text)):
        return "deploys"
    if _SECURITY.search(text) and (changes or _SECURITY_WORK.search(text)) and not _LOOKS_ONLY_OF.search(text):
        return "security"
    if changes and _BROADLY.search(text) and not _LIMITED.search(text) and not _WORDING.search(text):
        return "broad"
    return ""


_DAMAGE = {
    "deletes": _re(
        r"--force\b|--hard\b|--no-verify\b|\bforce[- ]push|\bpush -f\b|\bpush over\b|\bsquash\w*\b.*\bcommits?\b|"
        r"(?:^|[^\w-])rm -\w|^rm\b|\b(?:rmdir|mkfs|shred|unlink)\b|\bdd if=|\b(?:nuke|wipe|purge|obliterate)\b|"
        r"\b(?:delet(?:e|es|ing)|eras(?:e|ing)|recreat(?:e|ing)|clean(?:ing)? out|empty|emptying|kill|destroy\w*|"
        r"throw(?:ing)? away|archive)\b.{0,60}\b(?:it|them|all|everything|"
        r"volumes?|tables?|buckets?|accounts?|databases?|db|users?|jobs?|dir\w*|folders?|files?|branch\w*|orders?|"
        r"records?|changes|uploads?|history|backups?|resources?|clusters?)\b"
    ),
    "data": _re(
        r"\btruncat\w+\b.{0,40}\btables?\b|\bdrop\w*\b.{0,30}\b(?:tables?|columns?|database|db|schema|index|rows?)\b|"
        r"\bdropdb\b|\bdelete from\b|\balter table\b|\b(?:columns?|fields?|primary keys?)\b.{0,30}\b(?:nullable|"
        r"not null|unique|primary key|uuid)\b|\brestor\w+\b.*\b(?:backup|dump)|\b(?:backup|dump)\b.*\brestore|"
        r"\bsync\b.*\bdata\b|\bswap \w+ for (?:postgres\w*|mysql|sqlite|mongo\w*|redis)"
    ),
    "deploys": _re(
        r"\bterraform (?:apply|destroy|import|state)|\b(?:npm|yarn|pnpm|cargo|twine|gem|poetry|uv) (?:publish|upload)|"
        r"\b(?:push|publish|upload|release)\b.{0,30}\b(?:to|on) (?:npm|pypi|crates|docker ?hub|the registry|app store)|"
        r"\bkubectl (?:apply|delete|scale|drain)|\bhelm (?:install|upgrade|uninstall|rollback)|\bgo(?:es)? live\b|"
        r"\bput (?:this|it|that) live\b|\b(?:and|then) ship\b|\bscale\b.{0,30}\b(?:cluster|nodes?|replicas?)\b|"
        r"\bDNS\b|\bopen(?:ing)? (?:up )?port\b|\bto the internet\b|\b(?:against|on|in|to) (?:the )?prod(?:uction)?\b"
    ),
    "security": _re(
        r"(?<![\w/])\.env\b|\b(?:re)?set(?:ting)?\b.{0,30}\bpasswords?\b|\bhard-?cod\w+\b.{0,40}\b(?:key|password|"
        r"secret|token|credential)s?|\b(?:make|made|set|turn)\b.{0,40}\bpublic\b(?! (?:method|function|field|class|"
        r"api|member))|\bchmod\b|\b777\b|\bsessions? expir\w+|\b(?:stay|remain|keep) \w* ?logged in\b|"
        r"\bwithout (?:confirm|verif|auth)\w*|"
        r"\b(?:skip|disable|bypass|turn off)\w*\b.{0,30}\b(?:verif\w+|auth\w*|check|signature|ssl|tls|csrf)\b|"
        r"\b(?:write|read|admin|root|full) access\b|\bcharg(?:e|ing)\b.{0,20}\b(?:customers?|users?|cards?)\b|"
        r"\b(?:send|e?mail)\b.{0,40}\b(?:all|every)\b.{0,20}\b(?:subscribers?|users?|customers?)\b"
    ),
}
"""Words of damage: whatever else a sentence says, it is not harmless."""


def _damages(text: str) -> str:
    """The reason for which a sentence, or a line of a command, may do damage; empty: none of the words is there."""
    return next((why for why, words in _DAMAGE.items() if words.search(text)), "")


_TASK = _re(
    r"^(?:create|make|add|write|update|record|open|file) (?:\w+ ){0,3}?(?:task|ticket|"
    r"issue)s?\b(?! (?:manager|list|board|queue|runner))|\b(?:task|ticket) spec|\bspec's\b"
)
"""It writes down what is to be done later."""
_LOCAL_PLAN = _re(r"\bwrite (?:it|this|that) (?:to|in|into)\b|\badd (?:it|this|that) to the plan\b")
_LINT = _re(r"\b(?:lint\w*|warnings?|imports|whitespace|formatting|console logs?)\b")
_CHANGE_LATER = _re(
    r"\b(?:and|then|to|,) (?:then )?(?:get (?:it|that|this) done|sort (?:it|this|that)|handle (?:it|this|"
    r"that)|take care|go on|continue|proceed|start|begin|do (?:it|that|so|what)|apply|execute|carry|"
    r"follow|fix|change|implement|update|delete|remove|migrate|refactor|rewrite|deploy|replace|correct)\b"
)
_DEPLOY_NOW = _re(r"\bdeploy(?:ing)? (?:it|this|to|the)\b|\bto (?:production|prod)\b")
_DEPLOYED = _re(r"\b(?:deploy|release|publish|ship|roll|go live|tag|walk through|getting|build failed)\w*\b")
_WORDING = _re(r"\b(?:say|text|wording|spelling|label|capitali[sz]e|title|typo)s?\b")


def _whole(text: str) -> str | None:
    """What the text as a whole says: nothing but the names of plans; a document of demands."""
    words = text.lower().split() if len(text) <= 2 * SHORT else []
    names = [word for word in words if _NAME.fullmatch(word)]
    if names and any(map(_OF_PLAN.search, names)) and all(word in _GOES_ON for word in words if word not in names):
        return "unseen"
    if len(text) > 1_200 and re.search(
        r"\b(?:requirements document|executive summary|prd\b|user stories|acceptance criteria)",
        text[:2_000],
        re.IGNORECASE,
    ):
        return "plans"
    return None


def _spans(text: str, sentences: int) -> str | None:
    """Whether a list of demands spans several layers."""
    if sentences < MANY_DEMANDS or _LIMITED.search(text):
        return None
    layers = sum(one.search(text) is not None for one in _LAYERS)
    builds = len(_BUILDS.findall(text))
    return "broad" if layers > MANY_LAYERS and (sentences >= MANY_DEMANDS and builds >= 2) else None
