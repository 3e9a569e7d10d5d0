"""The words and shapes that tell classes of tasks apart: tables, nothing else. Pure.

Words are lower case. English mostly; for the high-risk classes German, French and Spanish as well, since there a miss
is dear. `stoker.request.decide.asks` reads a text by them and `classify` decides. All of it is tuned on the half of
tests/data/tasks that is not held out.
"""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """A table of words, as they stand between blanks."""
    return frozenset(text.split())


def _phrases(phrases: str) -> frozenset[str]:
    return frozenset(phrase.strip() for phrase in phrases.split(","))


LEAD = words(
    "please pls plz kindly now then first also ok okay hi hey hello so and just can could would will you we i i'd "
    "i'll i'm to have help me us let let's lets go ahead try must should do need want be great bitte können kannst "
    "wir ich möchte peux pouvez tu vous puedes por favor later next finally again maybe before anything touching but "
    "up nice use today either or really still simply"
)
"""What may stand before the verb of an ask."""

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
"""Verb, or verb and particle: what may be asked with it."""
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
"""Noun: what kind of thing is made. Of a run of nouns the last counts: a test strategy is a strategy."""

WORK = words(
    "migration migrate migrating service services microservice microservices system systems database db postgres "
    "mysql oracle kafka kubernetes cluster cloud team teams rollout customers customer release releases app apps "
    "platform deploy deployment deployments downtime rollback api apis schema server servers infra infrastructure "
    "engineers engineer engineering product company enterprise monolith backend frontend code codebase repo repos "
    "auth sourcing restore backup websocket stack oauth login sso billing payments payment checkout pipeline data "
    "warehouse tenant tenants tenancy region regions scaling scale latency throughput traffic p99 rto rpo recovery "
    "feature features mvp quarter quarters quarterly q1 q2 q3 q4 sprint backlog velocity epic tickets okr okrs "
    "stakeholders milestones dependencies risks risk owners workstreams scope requirements compliance gdpr soc2 iso "
    "audit security incident ransomware erp crm wms jira stripe mqtt soap rest grpc graphql queue events "
    "event-driven ingestion ingest storage cache caching shard sharding replication failover integration integrate "
    "vendor go-to-market launch startup business hiring headcount debt technology tech technical department "
    "departments office employees software mobile ios android web desktop component components module modules "
    "architecture sdk plugin multi-tenant multi-region cut-over cutover legacy mainframe batch deprecation deprecate "
    "upgrade rewrite refactoring refactor jobs logging monitoring observability tracing slo sla ci cd branching "
    "versioning hotfixes canary flags flag saas b2b pricing subscription analytics dashboard ml model "
    "training-pipeline experiment experiments robots robotics factory hospital insurance marketplace ecommerce "
    "e-commerce notification notifications spec spec.md workflow tests test testing crdt collaborative recognition "
    "speech shortener limiter cto board implementation project projects datenbank datenbanken unternehmen anwendung "
    "projekt umzug plateforme paiement projet équipe aplicación nube proyecto datos équipes microservicios dienste "
    "phased bounded work effort saml ldap partners permission permissions access design options contexts ledger "
    "currency invoicing tb idempotent stateless global state ux onboarding supplier suppliers contingency continuity "
    "transition remediation staffing sales marketing revenue cron airflow tooling gateway proxy network vpn vpc "
    "exchange 365 azure aws gcp terraform serverless lambda redis sqs rabbitmq elasticsearch search index etl elt "
    "budget procurement certification certified sharepoint salesforce sap"
)
WORK |= {f"{word}s" for word in WORK}
"""A plan among these is work; a plan without any is somebody's evening."""
PRIVATE = words(
    "weekend weekends dinner lunch breakfast supper picnic party wedding birthday holiday holidays vacation trip "
    "meal meals workout marathon gym diet garden flat kitchen mum mom dad mother father sister brother wife husband "
    "girlfriend boyfriend kids toddler baby cat dog parrot evening evenings tonight recipe chores retirement pension "
    "dentist knitting camping hike hiking itinerary honeymoon anniversary grandma nan neighbour neighbor friend "
    "friends feelings learn learning study exam hobby guitar piano wochenende abendessen soir fin cena"
)
"""Private life."""
PLAN_STRONG = words(
    "roadmap roadmp rollout milestones workstreams architecture rfc adr cutover migrationsplan projektplan runbook "
    "okr okrs spec specification architektur arquitectura"
)
"""Nouns of plans that need only themselves, if nothing private is near."""
DESIGNED = words(
    "architecture system service services platform pipeline schema model boundaries backend api infrastructure "
    "database warehouse protocol topology app application gateway queue plugin workflow cluster limiter shortener "
    "engine layer architektur plateforme microservices store bus network scheduler data solution process"
)
"""What is architected. A logo is not."""
HOW = words("how")
PLANNED = words(
    "structure architect decompose sequence split migrate introduce roll organise organize approach shard phase go "
    "partition scale stage replace retire deprecate divide plan prioritise prioritize design modernise modernize "
    "move integrate propose suggest recommend"
)
"""How should we ... : the answer is a plan."""
WE = words("we i you one")
MODAL = words("should would do can could shall might")

BREADTH = words(
    "everywhere throughout codebase code-base monorepo repo-wide project-wide wherever repository-wide codebase-wide "
    "call-sites callsites codemod callers implementors implementers überall partout dondequiera workspace-wide "
    "tree-wide"
)
"""One of these is as wide as it gets."""
QUANTITY = words(
    "all every each whole entire across multiple several both various two three four five six seven eight nine ten "
    "twelve dozen many complete full alle allen allem gesamte gesamten ganze ganzen tous toutes toute tout todo "
    "todos todas toda any other our"
)
SCOPE = words(
    "file files module modules package packages component components service services project repo repository code "
    "codebase base tests test imports import occurrence reference call use props names variables methods fields "
    "strings headers stack microservices usages usage uses helpers identifiers constants copyright callers classes "
    "class endpoints handlers layers layer tree app apps controllers plugins backends models views serializers "
    "callbacks functions projekt modul modulen dateien datei fichiers projet archivos módulos proyecto código repos "
    "libraries directories folders solution them places spots everything workspace references occurrences consumers "
    "screens pages routes crates namespaces importers tables templates fixtures suites suite adapters configs "
    "call-sites entities dtos subprojects gradle reports src lib hooks scripts clients entrypoints implementations "
    "backend frontend"
)
"""Where code lies. With a quantity before it: a change in many places."""
STRUCTURE = words(
    "modules packages package module project codebase repo repository layer library libraries imports callers suite "
    "workspace files solution namespaces namespace services monorepo folder folders layout directories crates src "
    "base classes server components repositories"
)
"""What a restructuring goes over: naming one of these is enough with such a verb."""
LANGUAGES_OF_CODE = words(
    "python rust go golang java javascript js typescript ts c c++ c# kotlin swift haskell ruby php perl scala sql "
    "bash powershell awk sed jq pandas react node nginx docker terraform graphql html css excel numpy postgres mysql "
    "regex prisma fastapi django flask makefile lua r julia elixir zig"
)
CODE_WORDS = words(
    "bug function test tests lint error css config button endpoint loop regex query compile compiles crash crashes "
    "exception nullpointerexception segfault typeerror stacktrace build file class method variable import imports "
    "dockerfile yaml cli flag version tokenizer typo default header sidebar lines snippet component field"
)
AREAS = words(
    "serializers models views controllers services handlers routes repositories daos entities fixtures components "
    "modules packages plugins tests docs migrations templates factories callers frontend backend imports serializer "
    "mocks dockerfile resolvers middleware jobs workers clients client db producers subscribers publishers "
    "controller router core web specs consumers endpoints layer entrypoints database api reports"
)
"""Three of these in one change: it goes through the code."""
VAGUE = words(
    "places spots pages screens data names fields strings stack folders call calls use class hooks clients client "
    "libraries directories references layers layer routes tree methods headers tables base app apps them everything "
    "everywhere plugins templates wherever table partout todo fixtures lib jobs go r c ts express echo fetch next "
    "bottle moment less nose rocket spring flask swift rust emotion poetry attrs pip uv rest symfony react actix "
    "bash perl ruby scala julia elixir crystal docker excel maven rollup parcel gulp bower babel jest mocha remix "
    "requests tornado zap slog mui"
)
"""Words of code, of homes and of kitchens."""
WHOLE = words("project repo repository codebase workspace solution monorepo tree package app application")
"""From the project: with a verb that is not small."""
FRAMEWORKS = LANGUAGES_OF_CODE | words(
    "angular vue svelte next nuxt remix express koa fastify jquery redux mobx zustand jest mocha vitest enzyme "
    "webpack vite rollup parcel gulp grunt babel axios fetch requests httpx aiohttp urllib3 unittest pytest nose "
    "rspec junit testng spring quarkus micronaut rails sinatra laravel symfony echo gin actix axum rocket tornado "
    "bottle starlette sqlalchemy sequelize typeorm knex mongoose hibernate jooq mybatis moment dayjs luxon lodash "
    "underscore maven gradle bazel cmake bower npm yarn pnpm poetry pip uv python2 python3 pydantic marshmallow "
    "attrs dataclasses kapt ksp rxjava coroutines flutter electron tauri xamarin maui winforms wpf asp.net grpc rest "
    "graphql websockets commonjs esm sass less tailwind bootstrap styled-components emotion mui logrus zap slog "
    "log4j logback structlog"
)
"""From one to another of them: that goes through everything."""
TECHNICAL = (
    (SCOPE | BREADTH | AREAS | FRAMEWORKS | CODE_WORDS | words(
        "refactor codebase async await typescript orm dto dao sdk json yaml enum struct dataclass singleton "
        "singletons dependency dependencies injection deprecated interface logger logging config settings library "
        "compiler linter null unittest mock mocks callback promises promise oauth token tokens http cache sql schema "
        "column columns decorator getter setter constructor namespace exception exceptions floats float ints uuid "
        "uuids camelcase git ci snake_case kwargs args boolean string usages lint codemod identifiers types ui "
        "coupling state constants naming npm inheritance hierarchy engine module"
    ))
    - VAGUE
) | words("code tests classes functions")  # fmt: skip
"""One of these, a path or an identifier, or it is somebody's kitchen that is changed everywhere."""
ONE = words("this single only just that")
"""Before FEW: the change stays in one place."""
FEW = words(
    "function method file snippet component class line loop regex query script code variable condition test "
    "email mail message letter text sentence paragraph"
)

REVIEWED = words(
    "code pr prs diff patch commit branch changes change implementation function class tests test api sql terraform "
    "helm query contract migration merge pull module script config dockerfile"
)
REVIEW_HINT = words(
    "review reviewer lgtm smells smell vulnerability vulnerabilities security issues bugs bug merge push objections "
    "feedback critique quality harsh audit blocking nit comments flag thread-safe safe compatibility wrong opinion "
    "reentrancy injection backwards gaps maintainer reviewing problems bad severity defects nits reviewers"
)
LANGUAGES = words(
    "english spanish french german italian portuguese dutch polish russian ukrainian japanese chinese mandarin "
    "korean arabic hebrew turkish swedish norwegian danish finnish greek hindi thai vietnamese czech hungarian "
    "romanian latin catalan welsh irish gaelic brazil brazilian cantonese indonesian bengali urdu persian farsi"
)
SPEAKING = words(
    "say said word pronounced translate translation mean equivalent native translator translations correct"
)
FOREIGN = words(
    "der die das und ist nicht ein eine ich du wie auf mit für den dem ins wenn was sind mir einen muss kannst mein "
    "bitte warum oder le la les des est une un c'est qu'est est-ce dime pour que qui dans je quelle quel quels sont "
    "tes vous et pourquoi comment ce ma qu'on cette avec en el los las es por qué cuál para una tienes mi del con y "
    "cómo como al il che come si fa senza di sul della per non gli o os é uma não entre qual e eu meu het een zijn "
    "van niet wat te om att och hur är det inte jag że się jak do w krótki jest bir ve ne için kaç da mı se řekne "
    "jsem to na câu này sang trời tôi là"
) - words("die was do to me o du as y")
ENGLISH = words(
    "the a an is are of to and in for that this it with on you i my be have what how please can we was at from or "
    "not me do your does"
)
SUMMARY_WORDS = words(
    "tl;dr tldr summary summarise summarize gist takeaways recap digest upshot condense abstract tl dr"
)
MATH_SURE = words(
    "derivative integral integrate sqrt logarithm celsius fahrenheit hypotenuse gcd lcm determinant remainder "
    "probability lim modulo median variance cosine sine cubed squared percentage"
)
MATH_WORDS = words(
    "derivative integral integrate sqrt log factor percent percentage celsius fahrenheit kilometres miles mean "
    "average area volume radius circle hypotenuse gcd lcm determinant remainder roots equation probability simplify "
    "lim decimal binary hex choose divided times plus minus prime sum round decimals interest speed seconds litres "
    "solve calculate compute convert cost costs much many each pay off left terms modulo median variance"
)
PUZZLE = words(
    "prove proof induction paradox knights knaves knight knave puzzle riddle weighings deduce argument valid "
    "premises conclusion liar lies truth lie prisoners hats switches jug wolf goat cabbage houses coins counterfeit "
    "logic logically infer derive theorem lemma contradiction irrational switch bulb taller tallest shorter bloops "
    "razzies objection objections compatibilist flaw transcendental rigorously deduction reasoning bridge weigh "
    "sisters brothers boat tournament dilemma probability finite continuous graph vertices labelled boxes labels "
    "coin litre trains torch alternative claims caused yesterday tomorrow doors monty owns problem drinks keeps fly "
    "cents nickel"
)
PUZZLE_STRONG = words(
    "induction paradox knights knaves knight knave puzzle riddle weighings counterfeit irrational transcendental "
    "disprove derivation premises bloops compatibilist rigorously"
)
THOUGHT = words(
    "explain why step steps exactly carefully reason reasoning justify therefore next must always least possible "
    "deduce who think which order"
)
"""Half a sign of a puzzle each."""
PARTICLES = {
    "break": words("down into"), "put": words("together"), "lay": words("out"), "map": words("out"),
    "draw": words("up"), "turn": words("into"), "think": words("through"), "work": words("out"), "get": words("rid"),
    "sum": words("up"), "pull": words("out"),
}  # fmt: skip
"""Verb: what may follow it at a distance, and makes another verb of it."""
CODE_HEADS = words("class function method script struct interface hook table")
"""After these a noun is a name: "a class Roadmap"."""
SMALL_TALK = words(
    "hi hello hey thanks thank you you're a star good morning evening night afternoon bye ok okay lol cool great "
    "nice yes no there :) thx cheers perfect awesome a-star welcome sorry"
)

TELLING = frozenset[str]().union(
    NOUNS, WORK, PRIVATE, DESIGNED, BREADTH, SCOPE, STRUCTURE, LANGUAGES_OF_CODE, CODE_WORDS, AREAS, WHOLE, FRAMEWORKS,
    TECHNICAL, ONE, FEW, REVIEWED, REVIEW_HINT, LANGUAGES, SPEAKING, FOREIGN, MATH_SURE, MATH_WORDS, PUZZLE,
    PUZZLE_STRONG, THOUGHT,
)  # fmt: skip
"""What is in any table that the rules ask of a whole text: what is in none of them is looked up once."""
