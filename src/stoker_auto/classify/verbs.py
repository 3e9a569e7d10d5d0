"""The verbs of requests, and the nouns of what is made: tables, nothing else. Pure.

Words are lower case. Mostly English; for the high-risk classes also German, French and Spanish, because a miss is
expensive there. `stoker_auto.classify.asks` reads texts with these tables; the weights are learned.
"""

from __future__ import annotations

import unicodedata

from stoker_auto.classify import languages

_LEADS = b"\xcc\xcd"
"""Each accent (U+0300 to U+036F) begins with one of these bytes in UTF-8, and no other character of a text does."""


def plain(text: str) -> str:
    """The text without accents, as people type in a hurry, and with the usual forms of letters and marks. Scripts
    without an alphabet keep their accents. Removing an accent's first byte is enough: the rest is not a character.
    """
    if text.isascii():
        return text
    bare = unicodedata.normalize("NFKD", text.replace("\u00df", "ss")).encode(errors="replace").translate(None, _LEADS)
    return unicodedata.normalize("NFC", bare.decode(errors="ignore"))


def words(text: str) -> frozenset[str]:
    """A table of words, from a text with blanks between them."""
    return frozenset(text.split())


def _phrases(phrases: str) -> frozenset[str]:
    return frozenset(phrase.strip() for phrase in phrases.split(","))


LEAD = words(
    plain(languages.LEAD) + " "
    "please pls plz kindly now then first also ok okay hi hey hello so and just can could would will you we i i'd "
    "i'll i'm to have help me us let let's lets go ahead try must should do need want be great bitte können kannst "
    "wir ich mochte peux pouvez tu vous puedes por favor later next finally again maybe before anything touching but "
    "up nice use today either or really still simply"
)
"""Words that may precede the verb of an ask."""

ROLES: dict[str, frozenset[str]] = {
    "plan": _phrases(
        "plan,plan out,architect,decompose,roadmap,sequence,prioritise,prioritize,estimate,schedule,strategise,"
        "strategize,phase,break down,think through,think about,work out,figure out,decide,map out,plane,planning,"
        "planifica,planifie,scope,scope out,organise,organize,roll out"
    ),
    "design": _phrases(
        "design,redesign,designing,architect,structure,sketch,model,set up,entwirf,conçois,diseña,split,lay out"
    ),
    "make": _phrases(
        "write,create,make,draft,prepare,produce,propose,develop,devise,outline,sketch,generate,give,come up,"
        "put together,draw up,lay out,lay down,build,compose,design,define,work out,figure out,map out,structure,"
        "set up,need,want,like,present,suggest,provide,show,turn,recommend,pen,rhyme,invent,make up,tell,describe,"
        "continue,imagine,brainstorm,rewrite,code,implement,complete,add,list,identify,formulate,establish,"
        "sketch out,write up,write me,set out,assemble,compile,construct,spell out,work up,deliver,document,do,"
        "turn into,entwirf,erstelle,schreib,schreibe,mach,erarbeite,entwickle,crée,rédige,prépare,élabore,haz,crea,"
        "elabora,escribe,propón,prepara,diseña,plan,estimate,break down,break into"
    ),
    "change": _phrases(
        "refactor,rename,replace,move,migrate,convert,extract,split,split up,break into,change,update,upgrade,switch,"
        "port,consolidate,unify,remove,restructure,reorganise,reorganize,rework,introduce,apply,eliminate,drop,make,"
        "turn,pull,break up,break,swap,get rid,clean,clean up,inline,deduplicate,rip,rip out,thread,adjust,touch,"
        "modernise,modernize,standardise,standardize,decouple,delete,merge,centralise,centralize,enforce,separate,"
        "modularise,modularize,rewrite,factor out,factor,hoist,retire,purge,propagate,bump,add,wrap,push,transition,"
        "fix,benenne,refactorisiere,ersetze,verschiebe,teile,stelle,renomme,remplace,déplace,refactorise,sépare,"
        "migre,refactoriza,reemplaza,mueve,renombra,cambia,divide,convierte,migriere,redo,harmonise,harmonize,pass,"
        "strip,sweep,substitute,type,use,catch,get,kill,mark,inject,log,store,route,normalise,normalize,document,"
        "format,sort,prefix,expose,implement,write,handle,hide,cut,sync,align,join,fold,combine,undo,revert,rewire,"
        "redirect,redesign,adapt,reduce,group,bring,dedupe,isolate,put,annotate,do,unwind,flatten,untangle,turn into"
    ),
    "restructure": _phrases(
        "refactor,split,split up,break into,extract,move,pull,break up,break,separate,consolidate,unify,restructure,"
        "reorganise,reorganize,deduplicate,dedupe,convert,port,migrate,upgrade,modularise,modularize,rework,merge,"
        "decouple,turn,modernise,modernize,centralise,centralize,rewrite,factor out,isolate,hoist,refactorisiere,"
        "refactorise,refactoriza,make"
    ),
    "fix": _phrases(
        "fix,add,change,optimise,optimize,handle,simplify,make,correct,remove,bump,update,convert,refactor,debug,"
        "improve,rename,rewrite,port,apply,reformat,migrate,patch,repair,adjust,replace,disable,enable,speed,shorten,"
        "translate,clean,clean up,tidy,set,use,switch,extend,modify,resolve,solve,reduce,implement,move,increase,"
        "delete"
    ),
    "code": _phrases("write,implement,code,create,build,generate,complete,make,give,show,need,want,add,develop,script"),
    "review": _phrases(
        "review,audit,critique,check,inspect,look over,evaluate,rate,spot,assess,judge,compare,go through,find,"
        "sanity check,double check,verify,have a,comment,proofread,examine,scrutinise,scrutinize,point out,look at"
    ),
    "summarise": _phrases(
        "summarise,summarize,condense,shorten,recap,abridge,sum up,brief,digest,paraphrase,compress,reduce,boil,tldr,"
        "distil,distill,gist"
    ),
    "extract": _phrases(
        "extract,return,parse,pull,get,output,convert,turn,fill,give,list,label,classify,identify,annotate,transform,"
        "read,respond,scrape,tag,take,produce,generate,format,answer,reply,collect,find"
    ),
    "translate": _phrases("translate,übersetze,übersetzen,traduce,traduis,traduisez,localise,localize,traduci,traduza"),
    "prove": _phrases("prove,derive,deduce,show that,demonstrate,disprove,determine whether,infer,reason,argue"),
    "compute": _phrases(
        "compute,calculate,solve,integrate,differentiate,convert,factor,simplify,evaluate,round,split,find,add,"
        "multiply,divide,subtract,expand,sum,write"
    ),
}
"""Verb, or verb and particle, to what may be asked with it."""
for _role, _verbs in languages.ROLES.items():
    ROLES[_role] = frozenset(map(plain, ROLES.get(_role, ()))) | words(plain(_verbs))
VERBS: dict[str, frozenset[str]] = {
    verb: frozenset(role for role, verbs in ROLES.items() if verb in verbs)
    for verb in frozenset().union(*ROLES.values())
}

NOUNS: dict[str, str] = {
    word: kind
    for kind, words in {
        "plan": "plan plans roadmap roadmp strategy architecture rfc adr blueprint runbook timeline milestones rollout "
        "breakdown workstreams okr okrs proposal design backlog sprint phases steps roadmaps cutover migrationsplan "
        "projektplan zeitplan architektur strategie arquitectura estrategia spec specification schedule playbook "
        "sequence sequencing approach tickets epics stages gantt path wbs",
        "code": "function script class method regex query component dockerfile module page endpoint test tests "
        "decorator "
        "program snippet workflow cli code type config makefile trigger formula schema game website html css "
        "migration resolver app template algorithm macro hook middleware parser bot scraper crawler struct interface "
        "loop one-liner liner file manifest pipeline filter expression sql bash python javascript react container "
        "compose helm chart playbook webpage widget api server client implementation validator generator library "
        "package crate binary sorting queue stack tree cache pool widget table",
        "story": "poem haiku story limerick song lyrics sonnet rap tale monologue dialogue slogan toast verse "
        "rhyme ode "
        "ballad villanelle novel scene screenplay myth legend letter hymn backstory twists names fable joke poetry "
        "speech rhymes fairy anecdote tagline fanfic parody lullaby jingle riddle "
        "stanzas poems stories blurb acrostic superhero character villain joke jokes",
        "summary": "summary abstract gist takeaways digest headline synopsis recap overview tldr upshot essentials",
        "json": "json",
    }.items()
    for word in words.split()
}
"""Noun to the kind of thing that is made. In a run of nouns the last counts: a test strategy is a strategy."""

for _kind, _nouns in languages.NOUNS.items():
    NOUNS = {**dict.fromkeys(words(plain(_nouns)), _kind), **NOUNS}

PARTICLES = {
    "break": words("down into"), "put": words("together"), "lay": words("out"), "map": words("out"),
    "draw": words("up"), "turn": words("into"), "think": words("through"), "work": words("out"), "get": words("rid"),
    "sum": words("up"), "pull": words("out"),
}  # fmt: skip
"""Verb to particles that may follow it at a distance, and make it another verb."""
CODE_HEADS = words("class function method script struct interface hook table")
"""Words after which a noun is a name: "a class Roadmap"."""
