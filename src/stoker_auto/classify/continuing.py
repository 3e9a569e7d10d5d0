"""Does a text only say that the task goes on? "continue", "yes, go on", "mach weiter", "now the other 11". Pure.

A text continues what came before if it is short, is not a question, and

1. holds only numbers and words of agreeing or going on                -> ONLY
2. begins with a phrase of going on ("continue with the other ones")   -> GOES_ON
3. begins with a word that links it to something before ("now the
   backend", "and the tests")                                          -> LINKED

What that means for its class is decided in `classify`.
"""

from __future__ import annotations

import re
from enum import Enum

from stoker_auto.classify.verbs import words

MOST_CHARACTERS = 160
"""A longer text says more than that."""
MOST_WORDS = 12
MOST_LINKED = 8
"""Words of a text that is only linked to what came before."""
MOST_DENSE = 14
"""Characters of such a text in a script without blanks."""


class Continues(Enum):
    NO = "no"
    """It has something of its own to say."""
    LINKED = "linked"
    """It continues what came before, unless it asks for something by name or for high-risk work."""
    GOES_ON = "goes on"
    """It continues what came before, unless it asks for high-risk work."""
    ONLY = "only"
    """It only continues, and asks for nothing of its own."""


WORDS = words(
    # English
    "continue continuing go going on ahead yes yeah yep yup y sure ok okay k right alright fine good great perfect "
    "nice cool do does it that this them those these the a all both of other others rest remaining next more again "
    "same now then please pls and also too so with one ones file files step steps part parts last keep carry proceed "
    "resume retry finish done accept accepted approve approved confirm confirmed agreed agree i you lgtm let's lets "
    "let us just up for me can everything way thing things no nope n stop wait in to be sounds looks go-ahead begin "
    "start work working everywhere as before proceeding where left off we "
    # German
    "weiter mach mache machen macht weitermachen fahr fahre fort fortfahren ja jawohl jo klar gut passt gern gerne "
    "bitte und auch noch mal nochmal dann jetzt nun die der das den dem anderen andere restlichen übrigen nächste "
    "nächsten nächster alle allen dateien datei los genau es dasselbe gleiche einverstanden fertig stimmt nein mit "
    "für du kannst so "
    # French
    "continuer continuez poursuis poursuivez vas-y allez-y vas allez oui ouais d'accord bien sûr parfait encore et "
    "aussi maintenant ensuite puis les le la des du autres autre reste suivant suivante suivants tous tout fichiers "
    "fichier s'il te vous plaît plait stp svp pareil même chose fais-le fais faites-le c'est bon non avec pour "
    # Spanish
    "continúa continua continúe continuar sigue siga adelante sí si vale claro bien perfecto acuerdo dale hazlo hágalo "
    "ahora luego los las el otros otras otro otra resto siguiente siguientes demás todo todos todas archivos archivo "
    "por favor también lo mismo igual con de para "
    # Italian, Portuguese
    "continui continuare prosegui procedi avanti vai sì va bene perfetto ora adesso gli altri altre il prossimo "
    "prossima tutti per anche stesso fallo e sim certo perfeito agora depois os outros outras restante próximo próxima "
    "arquivos ficheiros o também faça faz isso vá em frente prossiga segue "
    # Dutch, Polish, Russian
    "ga verder door doorgaan prima goed graag nu dan de het volgende bestanden ook hetzelfde doe maar alsjeblieft "
    "kontynuuj dalej tak dobrze teraz reszta pozostałe następny proszę "
    "продолжай продолжайте продолжи дальше да хорошо ок давай теперь остальные остальное следующий "
    "пожалуйста ещё и тоже "
    # Arabic
    "أكمل اكمل واصل استمر تابع نعم أجل حسنا حسناً طيب تمام موافق الباقي البقية الآن التالي الآخر الأخرى كل من فضلك"
)
"""Words of agreeing and of going on, in several languages: a text of these alone asks for nothing."""
GOES_ON = (
    "continue", "keep going", "keep on", "go on", "go ahead", "carry on", "proceed", "resume", "try again",
    "do the same", "weiter", "mach weiter", "macht weiter", "fahr fort", "fahre fort", "continuez", "poursuis",
    "poursuivez", "vas-y", "allez-y", "continúa", "continua", "sigue", "adelante", "prosegui", "procedi", "avanti",
    "prossiga", "ga verder", "ga door", "kontynuuj", "продолжай", "продолжайте", "продолжи",
)  # fmt: skip
"""Beginnings of texts that go on, whatever few words follow."""
LINKS = words(
    "now and then also next same ditto again und auch jetzt nun dann noch et aussi maintenant puis ensuite y también "
    "ahora luego e anche ora adesso agora também теперь и"
)
DENSE = re.compile("继续|繼續|接着|下一|剩下|其余|其他|続け|続き|次|残り|進め|계속|다음|나머지")
DENSE_ONLY = words("好 好的 是 是的 对 對 可以 行 嗯 はい うん お願いします 네 예 응 좋아")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_SUM = re.compile(r"[%+*/=^{}()<>\[\]@_$€£`\\]")
"""Characters that a phrase of going on never has: those of sums, code, names."""
_NUMBER = re.compile(r"\d{1,6}(?:st|nd|rd|th|\.)?")


def continues(text: str) -> Continues:
    """Never raises; looks at no more than MOST_CHARACTERS characters."""
    shown = text.strip() if len(text) <= 2 * MOST_CHARACTERS else text
    if not shown:
        return Continues.ONLY
    if len(shown) > MOST_CHARACTERS:
        return Continues.NO
    said = _WORD.findall(shown.lower().replace("’", "'"))
    if not said:
        return Continues.ONLY if len(shown) <= MOST_DENSE and not shown.strip("👍✅🆗.!… ") else Continues.NO
    if len(said) > MOST_WORDS or shown.rstrip().endswith(("?", "？")):
        return Continues.NO
    if _SUM.search(shown):
        return Continues.NO
    if all(word in WORDS or _NUMBER.fullmatch(word) for word in said) and any(word in WORDS for word in said):
        return Continues.ONLY  # 1
    if len(shown) <= MOST_DENSE and (DENSE.search(shown) or shown.rstrip("。.!！") in DENSE_ONLY):
        return Continues.ONLY
    if ":" in shown or "\n" in shown:
        return Continues.NO
    if " ".join(said).startswith(GOES_ON):
        return Continues.GOES_ON  # 2
    return Continues.LINKED if said[0] in LINKS and len(said) <= MOST_LINKED else Continues.NO  # 3
