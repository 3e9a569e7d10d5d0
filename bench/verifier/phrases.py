"""What the cases are made of."""

from __future__ import annotations

SENTENCES = {
    "English": (
        "The service keeps one connection per worker and closes it when the queue is empty.",
        "It's worth noting that the cache isn't shared between processes.",
        "First, check whether the file exists; then read it line by line.",
        "You can raise the limit with `--max-size`, but memory grows with it.",
        "That said, the second approach is simpler to test and easier to explain.",
        "In 2019 the average was 3.7%, which is roughly twice as much as before.",
    ),
    "German": (
        "Der Dienst hält eine Verbindung je Arbeiter offen und schließt sie, sobald die Schlange leer ist.",
        "Prüfen Sie zuerst, ob die Datei vorhanden ist; lesen Sie sie dann Zeile für Zeile.",
        "Das ist übrigens einfacher zu testen und leichter zu erklären.",
    ),
    "French": (
        "Le service garde une connexion par processus et la ferme lorsque la file est vide.",
        "Vérifiez d'abord que le fichier existe ; lisez-le ensuite ligne par ligne.",
        "L'autre approche est plus simple à tester, et plus facile à expliquer.",
    ),
    "Spanish": (
        "El servicio mantiene una conexión por proceso y la cierra cuando la cola está vacía.",
        "¿Existe el archivo? Compruébelo primero y léalo después línea por línea.",
    ),
    "Russian": (
        "Сервис держит одно соединение на процесс и закрывает его, когда очередь пуста.",
        "Сначала проверьте, существует ли файл, а затем читайте его построчно.",
    ),
    "Chinese": (
        "服务为每个进程保留一个连接，队列为空时将其关闭。",
        "首先检查文件是否存在，然后逐行读取。",
        "第二种方法更容易测试。",
    ),
    "Japanese": ("サービスはプロセスごとに接続を一つ保持します。", "まずファイルが存在するか確認してください。"),
    "Arabic": ("تحتفظ الخدمة باتصال واحد لكل عملية وتغلقه عندما تكون القائمة فارغة.", "تحقق أولاً من وجود الملف."),
    "Hindi": ("सेवा प्रत्येक प्रक्रिया के लिए एक कनेक्शन रखती है।", "पहले जाँचें कि फ़ाइल मौजूद है।"),
    "Korean": ("서비스는 프로세스마다 하나의 연결을 유지합니다.", "먼저 파일이 있는지 확인하십시오."),
}
WORDS = (
    "alpha", "border", "cache", "depth", "engine", "filter", "group", "handle", "index", "journal", "key", "limit",
    "model", "node", "offset", "parser", "query", "record", "socket", "token", "unit", "vector", "width", "zone",
)  # fmt: skip
PYTHON = (
    '''import re
from collections import Counter

PATTERN = re.compile(r"[a-z]+(?:'[a-z]+)?")


def {name}(text: str, least: int = {n}) -> dict[str, int]:
    """Words that come often; it's case-insensitive."""
    counts = Counter(PATTERN.findall(text.lower()))
    return {{word: count for word, count in counts.items() if count >= least}}
''',
    '''from dataclasses import dataclass, field


@dataclass
class {title}:
    """A {name} with its parts."""

    name: str = "{name}"
    parts: list[tuple[int, str]] = field(default_factory=list)

    def add(self, size: int, label: str = 'part') -> None:
        if size > {n}:
            raise ValueError(f"{{label}} is larger than {{{n}}}")
        self.parts.append((size, label))

    @property
    def total(self) -> int:
        return sum(size for size, _ in self.parts)
''',
    """async def {name}(session, urls):
    results = []
    for url in urls:
        async with session.get(url, headers={{"accept": "text/html"}}) as reply:
            body = await reply.text()
            results.append((url, len(body), body[:{n}]))
    return results


if __name__ == "__main__":
    print("done", [x ** 2 for x in range({n})])
""",
)
SNIPPETS = (
    "    def {name}(self):\n        return self._{name}[{n}:]\n",
    "!pip install {name}\n%matplotlib inline\nimport {name}\n\n{name}.plot(range({n}))\n",
    "def {name}(*args):\n    ...\n\nclass {title}:\n    def run(self):\n        ...  # as before\n        return {n}\n",
    ">>> import {name}\n>>> {name}.size()\n{n}\n",
    "config = {{\n    'a': {n},\n    ...\n}}\n",
    "# in {name}.py\nreturn {name}(\n    x, ...\n",
    "else:\n    {name} = await fetch({n})\n",
    "def {name}(a, b) -> int\n",
    "print \"{name}\"\nexec 'x = {n}'\n",
    "def {name}():\n    # your code here\n",
    "type Pair[T] = tuple[T, T]\n\ndef first[T](items: list[T]) -> T:\n    return items[{n}]\n",
)
OTHER_CODE = {
    "javascript": "export function {name}(items) {{\n  return items.map((x) => `${{x.name}}: {n}`);\n}}\n",
    "ts": "type {title} = {{ id: number; tags: string[] }};\n\nconst {name} = ({{ id, ...rest }}: {title}) => rest;\n",
    "bash": "#!/usr/bin/env bash\nset -euo pipefail\nfor f in *.log; do\n  grep -c '{name}' \"$f\" || true\ndone\n",
    "rust": "fn {name}<'a>(s: &'a str) -> Option<&'a str> {{\n    s.split('-').nth({n})\n}}\n",
    "go": "func {title}(xs []int) (sum int) {{\n\tfor _, x := range xs {{\n\t\tsum += x * {n}\n\t}}\n\treturn\n}}\n",
    "c": '#include <stdio.h>\nint main(void) {{ char q = \'"\'; printf("%d%c\\n", {n}, q); return 0; }}\n',
    "sql": "SELECT name, COUNT(*) FROM {name} -- it's the big one\nWHERE size > {n} GROUP BY name;\n",
    "yaml": '{name}:\n  - size: {n}\n    path: "/var/{name}"\n',
    "html": '<ul class="{name}">\n  <li>{n}</li>\n  <li><s>old</s></li>\n</ul>\n',
    "": "{name}/\n├── src/\n│   └── main.py\n└── README.md\n",
    "text": "{name} = {n}\n(not closed\n",
    "mermaid": "graph TD;\n  A[{name}] --> B({n});\n",
}
