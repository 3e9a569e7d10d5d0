"""Does a request say by itself what is to be done, or does it only point at something that says it? Pure.

| the request                                                             | it is     |
|-------------------------------------------------------------------------|-----------|
| begins with a command by name ("/refactor src") and says little else    | COMMAND   |
| names a text, and asks to do what it says ("implement PLAN.md", "do     | REFERENCE |
| what the ticket says"), or is no more than its name ("APP-12 please")   |           |
| points at what was said or shown elsewhere ("as we discussed", "build   | REFERENCE |
| that", a file or an image and "implement this")                         |           |
| asks for something about a text ("summarise PLAN.md"), or anything else | OWN       |

It is asked only where tools that change files are offered. Whether the own words of a request say enough is decided in
`classify`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from stoker_auto.classify.continuing import WORDS
from stoker_auto.classify.letters import comparable
from stoker_auto.classify.verbs import plain, words

MOST_READ = 400
"""Characters that are read of each end of a request."""
FEW_WORDS = 6
"""A request of at most so many words may be no more than the name of a text, or point at something."""
COMMAND_WORDS = 12
"""A command by name that is followed by so many words says itself what is to be done."""
COMMAND = re.compile(r"\s*/([^\s/.]{1,64})(?=\s|$)")


class Says(Enum):
    OWN = "own"
    """It says itself what is to be done."""
    REFERENCE = "reference"
    """It points at a text that says it."""
    COMMAND = "command"
    """It names a command, whose text is not in the request."""


def says(text: str, has_attachment: bool = False, shows_code: bool = False) -> Says:
    """Never raises, and reads no more than MOST_READ characters of each end. `has_attachment`: a file or an image came
    with it. `shows_code`: code, which was taken out of `text`.
    """
    if len(text) > 2 * MOST_READ:
        text = f"{text[:MOST_READ]}\n{text[-MOST_READ:]}"
    if (named := COMMAND.match(text)) is not None:
        if len(_WORD.findall(text, named.end())) < COMMAND_WORDS:
            return Says.COMMAND
        text = text[named.end() :]
    shown = comparable(text.lower())
    if (not shown.isascii() or any(word in shown for word in _AGREED_WORDS)) and _AGREED.search(shown):
        return Says.REFERENCE
    clauses = [clause for part in _ENDS.sub(r"\g<0>\n", shown).split("\n") if (clause := _clause(part))]
    is_few = sum([len(one.words) for one in clauses]) <= FEW_WORDS
    if any(_points(one, is_few, has_attachment) for one in clauses):
        return Says.REFERENCE
    if not is_few or shows_code:
        return Says.OWN
    return Says.REFERENCE if any(_is_bare(one) for one in clauses) else Says.OWN


class _Clause(NamedTuple):
    """Which kinds of words it holds is looked up where it is asked for: most clauses name nothing."""

    text: str
    said: list[str]
    words: frozenset[str]
    is_dense: bool
    """It may be in a script without blanks, or in Arabic."""

    @property
    def is_question(self) -> bool:
        return self.text.rstrip().endswith(("?", "\uff1f"))

    @property
    def names(self) -> bool:
        """Whether it names a document or a ticket."""
        return (
            not _TEXTS.isdisjoint(self.words)
            or _has_pointer(self.text)
            or (self.is_dense and _DENSE_TEXTS.search(self.text) is not None)
        )

    @property
    def may_name(self) -> bool:
        """Whether it holds a word for a text that is also one for much else."""
        return not _MAY_BE_TEXTS.isdisjoint(self.words)

    @property
    def reports(self) -> bool:
        return not _REPORTS.isdisjoint(self.words) or (self.is_dense and _DENSE_REPORTS.search(self.text) is not None)

    @property
    def acts(self) -> bool:
        return (
            not _ACTS.isdisjoint(self.words)
            or _ACTS_IN_WORDS.search(self.text) is not None
            or (self.is_dense and _DENSE_ACTS.search(self.text) is not None)
        )

    @property
    def treats(self) -> bool:
        return not _TREATS.isdisjoint(self.words) or (self.is_dense and _DENSE_TREATS.search(self.text) is not None)

    @property
    def about(self) -> bool:
        return _is_about(self.said) or (self.is_dense and _DENSE_ABOUT.search(self.text) is not None)


def _clause(part: str) -> _Clause | None:
    said = _WORD.findall(part)
    return _Clause(part, said, frozenset(said), not part.isascii()) if said else None


def _has_pointer(part: str) -> bool:
    """Whether a document or a ticket is named. Most clauses hold no character that such a name has."""
    dot = part.find(".")
    return (
        (0 <= dot < len(part) - 1 and _FILE.search(part) is not None)
        or ("#" in part and _NUMBER.search(part) is not None)
        or ("-" in part and _TICKET.search(part) is not None)
        or "http://" in part
        or "https://" in part
    )


def _is_about(said: Sequence[str]) -> bool:
    """Whether it is work on a text itself: it speaks of typos, or a verb of such work comes first."""
    if not _MISTAKES.isdisjoint(said):
        return True
    first = next((word for word in said if word in _ABOUT or word in _ACTS or word in _TREATS), "")
    return first in _ABOUT


def _points(one: _Clause, is_few: bool, has_attachment: bool) -> bool:
    """Whether it asks to do what a text says.

    | it                               | and                                                               |
    |----------------------------------|-------------------------------------------------------------------|
    | names a document or a ticket     | asks to do it; or is no question, asks for nothing about the text |
    |                                  | itself, and treats it, reports of it, or is nothing but its name  |
    | holds a word that may name one   | asks to do what it says, or to do it                              |
    | came with a file or an image     | asks to do it                                                     |
    """
    if one.names:
        return one.acts or (not one.is_question and not one.about and (one.treats or one.reports or is_few))
    if one.may_name:
        return (one.acts and (one.reports or not _THAT.isdisjoint(one.words) or is_few)) or (
            one.reports and not one.about and not one.is_question
        )
    return has_attachment and not one.about and (one.acts or (is_few and not _MAKES.isdisjoint(one.words)))


def _is_bare(one: _Clause) -> bool:
    """Whether it only points: "build that", "make it so"."""
    does = one.acts or not _MAKES.isdisjoint(one.words)
    return does and not _THAT.isdisjoint(one.words) and one.words <= _POINTING


def _all(*texts: str) -> frozenset[str]:
    return words(plain(" ".join(texts)))


_ENDS = re.compile(r"[.!?;\u3002\uff01\uff1f\uff1b](?=\s|$)|[\u3002\uff01\uff1f\uff1b]|\n")
_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
_FILE = re.compile(r"[^\s/]\.(?:mdx?|txt|rst|adoc|org|pdf|docx?|odt|html?|eml)\b")
_NUMBER = re.compile(r"(?<![\w&])#\d{1,7}\b")
_TICKET = re.compile(r"\b[a-z][a-z0-9]{1,9}-\d{1,7}\b")
_TEXTS = _all(
    "ticket spec specs specification specifications todo todos to-do to-dos prd rfc adr backlog attachment runbook "
    "playbook",
    "anforderungen spezifikation pflichtenheft vorgaben anhang",
    "incidencia especificación requisitos adjunto",
    "consignes spécification specifica allegato especificação anexo",
    "тикет тикета тикете спецификации спецификация",
)
_MAY_BE_TEXTS = _all(
    "plan plans tickets checklist roadmap proposal attached epic phase milestone issue issues story card doc "
    "docs document documents brief note notes readme description instructions email mail "
    "message comment comments thread file page list task tasks item items step steps",
    "plan konzept checkliste anforderung vorgabe phase aufgabe dokument doku beschreibung anleitung notiz "
    "notizen nachricht kommentar liste schritt punkt datei seite",
    "plan fase tique documento descripción instrucciones nota notas correo mensaje comentario lista paso tarea archivo",
    "cahier annexe étape piano plano document description note notes message commentaire liste tâche fichier "
    "documento istruzioni descrizione messaggio "
    "instruções descrição mensagem tarefa arquivo",
    "план плана плану плане чеклист документе документ описании инструкции письме заметке задаче задача файле списке",
)
"""Words for texts, and for much else: they count only beside a word of `_REPORTS`, or if it is to be done."""
_REPORTS = _all(
    "say says said describe describes described lists listed asks written stated states mentioned mentions requires "
    "required outlined noted explained specified specifies per according wants requested",
    "steht beschrieben beschreibt gesagt geschrieben gefordert laut gemäß verlangt drin drinsteht genannt",
    "dice describe descrito indica indicado pone pide según escrito",
    "dit décrit indique selon écrit demande d'après dice descritto scritto secondo diz descrito escrito conforme",
    "написано сказано описано указано согласно сказано",
)
_ACTS = _all(
    "implement follow execute apply perform realize realise finish complete deliver tackle ship",
    "setz setze umsetzen implementier implementiere erledige erledig befolge folge führ führe mach mache macht machen "
    "arbeite bearbeite abarbeiten realisiere",
    "haz hazlo haga implementa sigue ejecuta aplica completa termina realiza",
    "fais faites implémente suis suivez exécute applique termine réalise fai segui esegui applica realizza faz faça "
    "siga execute aplique realize",
    "сделай реализуй выполни следуй примени доделай",
)
"""Verbs of doing what a text says."""
_ACTS_IN_WORDS = re.compile(
    r"\b(?:do (?:exactly |just |only |all )?(?:it|that|this|these|those|what|whatever|everything|all|as|so"
    r"|the|each|every|"
    r"both|next)|(?:work|go|step) (?:\w+ ){0,3}through|work (?:on|off)|take care|start (?:on|with)"
    r"|get (?:\w+ ){1,3}done|"
    r"carry out|make (?:\w+ ){1,2}happen|arbeite (?:\w+ ){1,5}ab|leg los|was zu tun ist|lo que hay que hacer)\b"
)
_TREATS = _all(
    "fix solve resolve address close handle read open start begin take pick make go work process land build check look "
    "see get grab continue finish proceed",
    "behebe löse löse lies öffne beginne fang starte bau baue nimm",
    "resuelve atiende empieza lee abre arregla construye mira",
    "résous traite commence lis ouvre corrige risolvi leggi apri inizia resolva leia abra comece",
    "прочитай открой займись начни реши исправь посмотри",
)
"""Verbs of what may also be done to a text itself."""
_ABOUT = _all(
    "write create draft summarise summarize translate explain review proofread edit rename shorten count format tell "
    "show describe",
    "schreib schreibe erstelle fasse zusammen übersetze erkläre prüfe korrigiere zeig",
    "escribe crea resume resumen traduce explica revisa corrige muestra",
    "écris crée résume traduis explique relis scrivi riassumi traduci spiega correggi escreva resuma "
    "traduza explique corrija",
    "напиши переведи объясни проверь перескажи",
)
"""Verbs of work on a text itself."""
_MISTAKES = _all(
    "typo typos spelling grammar misspelled misspelt wording tippfehler rechtschreibung schreibfehler errata erratas "
    "ortografía faute fautes frappe orthographe refuso refusi опечатку опечатки орфографию"
)
_MAKES = _all("build make fix apply start try", "bau baue", "construye", "construis", "сделай")
_THAT = _all(
    "it this that these those them everything all so", "das dies diese es alles so", "esto eso esos lo todo así",
    "ça cela tout ceci questo quello tutto isto isso tudo", "это всё все так",
)  # fmt: skip
_POINTING = _ACTS | _TREATS | _MAKES | _THAT | frozenset(map(plain, WORDS))
_SAYING = (
    "discussed|agreed|said|told|talked|described|mentioned|wrote|proposed|suggested|outlined|planned|decided|showed"
    "|sent"
)
_AS = "discussed|agreed|described|planned|proposed|suggested|outlined|above|requested"
_WIE = "besprochen|vereinbart|beschrieben|gesagt|vorgeschlagen|geplant|abgesprochen"
_COMO = "acordamos|hablamos|dijimos|dije|dijiste|quedamos|propusiste|combinamos|acordado|hablado"
_LO_QUE = "acordamos|hablamos|dijimos|dije|dijiste|propusiste"
_COMME, _COME = "convenu|discute|dit|prevu", "concordato|discusso|detto"
_AGREED_WORDS = frozenset("|".join((_SAYING, _AS, _WIE, _COMO, _LO_QUE, _COMME, _COME)).split("|"))
"""Each way of `_AGREED` that is in ASCII has one of these."""
_AGREED = re.compile(
    r"\b(?:as|like|what|that|the way|everything|whatever) (?:we|i|you|they|he|she)(?:'ve| have| had)? "
    rf"(?:just |already |once )?(?:{_SAYING})\b"
    rf"|\bas (?:{_AS})\b|\bwie (?:\w+ ){{0,4}}(?:{_WIE})\b|\bcomo (?:\w+ ){{0,3}}(?:{_COMO})\b"
    rf"|\blo que (?:\w+ ){{0,3}}(?:{_LO_QUE})\b"
    rf"|\bcomme (?:\w+ ){{0,3}}(?:{_COMME})\b|\bcome (?:\w+ ){{0,3}}(?:{_COME})\b"
    r"|\bкак (?:\w+ ){0,2}(?:договорились|обсуждали|говорили|сказал|сказали)\b"
    r"|(?:商量|讨论|说|说过|约定|提到)(?:好)?的(?:那样|做|方案|改)?(?:做|改|来)|按(?:照)?(?:之前|刚才|上次|上面|我|你|我们)"
    r"|(?:話した|言った|決めた|相談した|提案した)(?:通り|とおり|よう|こと)|(?:さっき|先ほど|昨日|前)の(?:話|通り|件)"
    r"|(?:말한|얘기한|논의한|합의한)\s?(?:대로|것)|(?:كما|ما|حسب ما|وفق ما) (?:اتفقنا|ناقشنا|قلت|قلنا|ذكرت"
    r"|ذكرنا|تحدثنا)"
)
"""Says that it was said elsewhere."""
_DENSE_TEXTS = re.compile(
    "工单|文档|計画|计划书|需求|说明书|说明里|清单|待办|规格|设计稿|任务单|チケット|仕様|ドキュメント|設計書|手順書|要件|課題|イシュー"
    "|티켓|이슈|문서|명세|스펙|تذكرة|وثيقة|الوثيقة|المستند|مستند|الخطة|المواصفات|المواصفة|الملاحظات|التعليمات|القائمة|البلاغ"
)
_DENSE_REPORTS = re.compile(
    "说的|写的|里的|里写|描述|要求|按照|根据|依照|提到|書いて|書かれ|記載|通り|とおり|従って|基づ|적힌|대로"
    "|따라|مكتوب|يقول|ورد في|جاء في"
    "|وفق|حسب|المذكور|المطلوب في|الموصوف"
)
_DENSE_ACTS = re.compile(
    "按照|照着|根据|依照|实现|执行|落实|完成|照做|做吧|実装|実行|対応|通りに|とおりに|従って|進めて|구현|실행|처리|대로|진행|نفذ|نفّذ|افعل|طبق|طبّق|اتبع"
    "|أنجز|انجز|اعمل"
)
_DENSE_TREATS = re.compile(
    "处理|解决|打开|读一下|看一下|看看|読んで|見て|開いて|読み|직접|읽어|열어|اقرأ|افتح|عالج|ابدأ|حل"
)
_DENSE_ABOUT = re.compile(
    "总结|翻译|解释|错别字|概括|润色|写一|要約|翻訳|訳して|説明して|誤字|まとめ|요약|번역|설명해|لخص|لخّص|ترجم|اشرح|صحح|اكتب"
)
