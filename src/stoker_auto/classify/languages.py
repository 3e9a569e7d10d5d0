"""Verbs and nouns of requests in other languages than English: tables, nothing else. Pure.

They have the roles and kinds of `verbs`.

German, French, Spanish, Italian, Portuguese, Dutch, Polish and Russian, in the forms
with which people give orders. Lower case, without accents (`asks` reads them so), `ss` for a sharp s.
"""

from __future__ import annotations

import re

ROLES: dict[str, str] = {
    "plan": (
        "planeje planifica planifier planifiez planen entwerfen pianifica organizza organiza organise "
        "organisiere planujemy zaplanuj спланируй планируем estima estime schatze stima estimez decoupe "
        "decoupez aufteilen priorisiere priorise prioriza"
    ),
    "make": (
        "schreib schreibe schreiben erstelle erstell mach erfinde erfind formulier dichte reim verfasse denk "
        "ecris ecrivez redige redigez invente inventez cree imagine trouve fais faites compose escribe "
        "escribeme redacta inventa inventate crea haz hazme componer dame scrivi scrivimi inventa crea fai "
        "fammi componi dammi escreve escreva cria crie faz faca monta inventa schrijf verzin maak bedenk "
        "napisz stworz wymysl zrob напиши придумай сочини создай сделай составь"
    ),
    "code": (
        "schreib schreibe erstelle programmier programmiere implementiere bau baue ecris code programme "
        "implemente escribe hazme programa implementa scrivi crea escreve cria schrijf maak napisz напиши "
        "реализуй"
    ),
    "change": (
        "ersetze ersetz benenne benenn umbenennen verschiebe verschieb zieh entferne entfern losche stell "
        "stelle wandle teil teile migriere portiere tausche tausch passe pass vereinheitliche remplace "
        "remplacez renomme renommez deplace supprime retire vire passe migre extrais sors decoupe coupe "
        "unifie reemplaza sustituye renombra mueve elimina quita borra cambia pasa migra extrae saca divide "
        "unifica sostituisci rinomina sposta elimina togli cambia passa migra estrai dividi unifica substitui "
        "substitua renomeia renomeie move remove tira troca troque muda migra extrai divide vervang hernoem "
        "verplaats verwijder zamien przenies usun замени переименуй перенеси удали убери вынеси выпили разбей "
        "перепиши переведи"
    ),
    "restructure": (
        "refaktorisiere refaktoriere restrukturiere zerlege entkopple vereinheitliche migriere refactorise "
        "refactore restructure migre extrais decoupe refactoriza refactorea reestructura migra extrae divide "
        "refattorizza ristruttura estrai refatora refatore refactor zrefaktoruj рефактори вынеси разбей"
    ),
    "fix": (
        "fixe behebe korrigiere reparier repariere andere ander erganze fuge fug optimiere beschleunige "
        "verbessere vereinfache konvertiere mach corrige corrigez repare ajoute ajoutez modifie optimise "
        "ameliore simplifie convertis reecris complete rends change arregla arreglame corrige repara anade "
        "agrega modifica optimiza mejora simplifica convierte pasalo completa cambia correggi sistema "
        "aggiungi modifica ottimizza migliora semplifica converti completa conserta corrija adiciona adicione "
        "otimiza otimize melhora simplifica converte arruma deixa los repareer voeg verander optimaliseer "
        "popraw dodaj zmien napraw исправь почини добавь измени оптимизируй упрости"
    ),
    "review": (
        "prufe pruf bewerte beurteile begutachte erklar erklare schau uberprufe verifie relis evalue explique "
        "expliquez regarde juge critique analyse revisa evalua explica explicame comprueba analiza audita "
        "mira controlla valuta spiega spiegami analizza guarda revisa avalia avalie explica explique verifica "
        "analisa analise controleer beoordeel leg sprawdz ocen wyjasnij проверь оцени объясни посмотри глянь"
    ),
    "summarise": (
        "fasse fass kurze kurz kurzen zusammenfassen vereinfache resume resumez reformule reformulez "
        "raccourcis abrege simplifie condense resumeme acorta reformula sintetiza reescribe riassumi accorcia "
        "sintetizza riformula semplifica resuma encurta encurte reescreve reescreva sintetiza vat verkort "
        "samenvatten stresc skroc сократи перескажи резюмируй суммируй переформулируй"
    ),
    "extract": (
        "extrahiere extrahier zieh liste list gib klassifiziere ordne filtere sammle sortiere extrais "
        "extraire liste listez classe classez donne releve ressors remplis extrae saca lista clasifica dime "
        "devuelve rellena extrai extraia lista liste classifica classifique preenche estrai elenca classifica "
        "compila haal wypisz wyciagnij sklasyfikuj извлеки вытащи выпиши перечисли классифицируй определи"
    ),
    "translate": (
        "ubersetze ubersetz ubersetzen traduis traduisez traduire traduce traduceme traducir traduci traduz "
        "traduza traduzir vertaal przetlumacz переведи перевод"
    ),
    "prove": (
        "beweise beweis zeige herleite begrunde demontre demontrez prouve prouvez montre justifie deduis "
        "demuestra prueba justifica deduce dimostra prova giustifica demonstre prove bewijs udowodnij wykaz "
        "докажи покажи выведи обоснуй"
    ),
    "compute": (
        "berechne berechnen rechne lose konvertiere calcule calculez resous convertis calcula resuelve "
        "convierte calcola risolvi converti resolve converte bereken oblicz policz посчитай вычисли реши "
        "переведи"
    ),
    "run": (
        "zeig zeige such suche schick schicke buch buche leg offne starte stell verschieb erinnere fuhr fuhre "
        "lies loschte montre affiche cherche envoie reserve ouvre lance demarre deplace rappelle lis liste "
        "trouve mets muestra ensename busca manda envia reserva abre ejecuta lanza mueve recuerdame lee "
        "encuentra pon apunta apaga enciende mostra cerca manda invia prenota apri esegui avvia sposta "
        "ricordami leggi trova mostre procura envia mande reserve abra roda rode execute move lembra leia "
        "toon zoek stuur boek open start draai pokaz znajdz wyslij zarezerwuj otworz uruchom покажи найди "
        "отправь забронируй открой запусти напомни прочитай создай"
    ),
}
NOUNS: dict[str, str] = {
    "plan": (
        "fahrplan zeitplan projektplan testplan testkonzept konzept arbeitspakete meilensteine reihenfolge "
        "schritte vorgehen architekturvorschlag notfallplan etapes lots chantier feuille jalons calendrier "
        "echeancier strategie conception pasos etapas hitos cronograma estrategia diseno arquitectura tareas "
        "passi fasi tappe cronoprogramma strategia progetto architettura passos fases cronograma arquitetura "
        "stappenplan plan этапы шаги план стратегия архитектура"
    ),
    "code": (
        "funktion skript abfrage klasse regex befehl formel komponente seite programm einzeiler makro "
        "fonction requete classe commande formule composant expression programme methode funcion consulta "
        "clase comando formula componente pagina programa metodo macro funzione query classe pagina programma "
        "metodo funcao consulta comando functie opdracht pagina funkcja funkcje skrypt zapytanie функция "
        "функцию скрипт запрос класс регулярка программу команда команду"
    ),
    "story": (
        "gedicht geschichte lied witz rede brief mail spruch slogan namen marchen nachricht poeme histoire "
        "chanson blague discours lettre conte noms haiku poema cuento cancion chiste discurso carta correo "
        "nombres fabula poesia storia canzone barzelletta lettera nomi favola historia cancao piada conto "
        "gedicht verhaal wiersz bajka стих стихотворение сказка сказку песня письмо рассказ слоган имена"
    ),
    "summary": (
        "zusammenfassung uberschrift stichpunkte kernaussagen kurzfassung resume titre points essentiel "
        "synthese resumen titulo puntos sintesis riassunto titolo punti resumo pontos samenvatting titel "
        "streszczenie заголовок тезисы краткое"
    ),
    "json": "tabelle tableau tabla tabella tabela таблица таблицу",
}
LEAD = (
    "bitte mal doch kannst konntest wurdest du mir uns bitte eben kurz noch jetzt dann ok stp svp peux "
    "pouvez tu vous nous me moi il faut faudrait puedes podrias me nos por favor porfa hay que puoi "
    "potresti mi ci per favore devi pode poderia me kun je even alsjeblieft prosze mozesz пожалуйста "
    "можешь давай мне нам надо нужно "
)
"""What may stand before a verb."""

WITHOUT_BLANKS: dict[str, str] = {
    "plan": "规划 方案 步骤 计划 拆分 架构 排期 分工 策略 手順 計画 設計 分割",
    "make": "写一 写个 编一 编个 起个 想个 起名 文案 口号 作って 考えて 書いて",
    "code": "脚本 函数 正则 查询 命令 公式 组件 写个 関数 スクリプト クエリ",
    "change": "换成 改名 改成 替换 统一 拆成 去掉 移到 抽成 删掉 置き換え 改名 変更 移して 統一",
    "restructure": "重构 拆成 抽成 リファクタ",
    "fix": "修复 修一下 改一下 报错 优化 加上 解决 补全 直して 修正 追加して エラー",
    "review": "有没有问题 看看这段 评价 解释 合理吗 安全 有没有 レビュー 説明して 問題",
    "summarise": "总结 概括 改短 摘要 要点 润色 通俗 标题 错别字 简化 要約 短く まとめ 誤字",
    "extract": "提取 列出 抽取 分类 表格 情感 判断 整理成 抽出 一覧 分類",
    "translate": "翻译 翻成 译成 翻訳 訳して 怎么说",
    "prove": "证明 推理 推导 推出 一步步 証明 理由",
    "compute": "多少 等于 计算 换算 解方程 いくら 計算",
    "run": "查一下 打开 发给 运行 跑一下 提醒 预订 订 列出 搜 調べて 送って 実行 教えて",
}
"""Words of scripts without blanks, which may occur anywhere in a text."""

SMALL_ASKS = re.compile(
    r"\s*(?:ما هي|ما هو|ما معنى|من هو|من هي|متى|أين|اين|كم|ترجم|لخص|لخّص|اشرح|صحح|صحّح|شكرا|مرحبا)(?:\s|$)"
)
"""How requests for little begin, in Arabic: too few prompts in it were learned."""
LARGE_WORK = re.compile(
    "خط[ةطو]|خارط|ترحيل|نقل|ننقل|انتقال|هجر|معمار|بني[ةت]|مراحل|مرحل|هيكل|تسمي|جميع|كل|وحد|ملفات|خدمات|خدمة|تقسيم|قسّ?م|تصميم|صمم"
    "|استراتيج|جدول|فريق|نظام|استبد|كود|شيفر|مشروع"
)
"""Stems of what may be high-risk work, in Arabic."""
MOST_SMALL = 160


def is_small(text: str) -> bool:
    """Whether a text in a language of which too little was learned plainly asks for little."""
    return len(text) <= MOST_SMALL and SMALL_ASKS.match(text) is not None and LARGE_WORK.search(text) is None


_QUESTION = re.compile(
    r"\W*(?:what|why|who|whose|where|when|which|was|warum|wieso|wer|wo|wann|welche[rs]?|qué|que|cuál|quién"
    r"|dónde|cuándo|por qué"
    r"|quoi|pourquoi|qui|où|quand|quel(?:le)?s?|qu['’]est-ce|cosa|perché|chi|dove|quando|quale|qual|quem|onde|что|почему|кто|где"
    r"|когда|wat|waarom|wie|waar|co|dlaczego|kto|gdzie)\b[^\n]{0,160}\?\s*",
    re.IGNORECASE,
)


def is_question(text: str) -> bool:
    """Whether the text is one question for what is, who or why; not how."""
    return _QUESTION.fullmatch(text) is not None
