"""Says which imports and attributes of modules exist. Its text is handed to the configured interpreter.

It gets `{"roots": [...], "uses": [...]}` as JSON on standard input, and writes one list as JSON. Modules of the
standard library are imported, because that alone shows all of their names. No other module is: its source is read.
What cannot be known for sure is taken to exist. Runs on Python 3.8 and newer.

A use is `{"module": "a.b", "names": ["c", "d"], "from": bool}`. Its answer is null, or
`{"module": ..., "missing": ..., "known": [...]}`: what is missing, of which module; "" means the module itself.
"""

# The configured interpreter may be older than the one that runs Stoker: no newer syntax, and only the standard library.
from __future__ import annotations

import ast
import importlib
import json
import os
import sys
import types
import warnings
from typing import Any, Iterable  # noqa: UP035

UNTOUCHED = frozenset(("antigravity", "this", "idlelib", "turtle", "turtledemo", "tkinter", "test", "lib2to3"))
"""Modules of the standard library that are not imported: they do something, or need a screen."""
ELSEWHERE = frozenset(
    (  # noqa: SIM905
        "startfile add_dll_directory O_BINARY O_TEXT O_NOINHERIT O_TEMPORARY O_RANDOM O_SEQUENTIAL chflags lchflags "
        "lchmod getlogin plock CTRL_C_EVENT CTRL_BREAK_EVENT SIGBREAK SIGINFO SIGEMT WindowsSelectorEventLoopPolicy "
        "ProactorEventLoop WindowsProactorEventLoopPolicy IocpProactor STARTUPINFO STARTF_USESHOWWINDOW "
        "STARTF_USESTDHANDLES SW_HIDE CREATE_NEW_CONSOLE CREATE_NEW_PROCESS_GROUP CREATE_NO_WINDOW DETACHED_PROCESS "
        "CREATE_BREAKAWAY_FROM_JOB CREATE_DEFAULT_ERROR_MODE ABOVE_NORMAL_PRIORITY_CLASS "
        "BELOW_NORMAL_PRIORITY_CLASS HIGH_PRIORITY_CLASS IDLE_PRIORITY_CLASS NORMAL_PRIORITY_CLASS "
        "REALTIME_PRIORITY_CLASS SIO_RCVALL SIO_KEEPALIVE_VALS RCVALL_ON RCVALL_OFF SO_EXCLUSIVEADDRUSE kqueue "
        "kevent devpoll windll oledll WinDLL OleDLL WinError FormatError WINFUNCTYPE HRESULT getwindowsversion "
        "winver dllhandle get_last_error set_last_error DllCanUnloadNow DllGetClassObject wintypes "
        "last_traceback last_type last_value last_exc ps1 ps2 closesocket enum_certificates enum_crls "
        "getandroidapilevel activate_stack_trampoline mbcs_encode mbcs_decode oem_encode oem_decode "
        "code_page_encode code_page_decode "
    ).split()
)
"""Names of the standard library that other platforms have."""
DYNAMIC = frozenset(("globals", "vars", "locals", "exec", "eval", "setattr", "__import__", "__path__", "__dict__"))
MODULE_NAMES = frozenset(
    (  # noqa: SIM905
        "__name__ __doc__ __file__ __path__ __package__ __spec__ __loader__ __dict__ __all__ __version__ __cached__ "
        "__builtins__ __author__ __annotations__ __class__ "
    ).split()
)
MAX_SOURCE = 2 * 2**20
MAX_DEPTH = 8


class Interpreter:
    def __init__(self, roots: list[str]) -> None:
        self.roots = roots
        self.specs: dict[str, Any] = {}
        self.sources: dict[str, Source | None] = {}
        self.standard = getattr(sys, "stdlib_module_names", frozenset(sys.builtin_module_names))

    def find(self, name: str) -> Any:
        """The spec of a module; None: there is none. Imports nothing."""
        if name not in self.specs:
            self.specs[name] = self._find(name)
        return self.specs[name]

    def _find(self, name: str) -> Any:
        parent, _, _ = name.rpartition(".")
        if parent:
            above = self.find(parent)
            if above is None:
                return None
            if above.submodule_search_locations is None:
                return None
            return self._ask(name, list(above.submodule_search_locations))
        found = self._ask(name, self.roots) if self.roots else None
        return found if found is not None else self._ask(name, None)

    def _ask(self, name: str, path: list[str] | None) -> Any:
        finders = sys.meta_path
        if path is not None and "." not in name:
            finders = [one for one in finders if getattr(one, "__name__", "") == "PathFinder"]
        for finder in finders:
            try:
                spec = finder.find_spec(name, path)
            except Exception:
                spec = None
            if spec is not None:
                return spec
        return None

    def is_standard(self, name: str) -> bool:
        """Whether a module is the standard library's: importing it runs nobody's code."""
        top = name.partition(".")[0]
        spec = self.find(top)
        if top not in self.standard or top in UNTOUCHED or spec is None:
            return False
        origin = spec.origin or ""
        return not any(origin.startswith(root + os.sep) for root in self.roots)

    def module(self, name: str) -> Any:
        try:
            return importlib.import_module(name)
        except BaseException:
            return None

    def source(self, name: str) -> Source | None:
        """`(names, bindings, is_open)` of a module whose source can be read; None: nothing is known."""
        if name not in self.sources:
            self.sources[name] = None  # a circle of star imports
            spec = self.find(name)
            origin = getattr(spec, "origin", None)
            if origin and origin.endswith(".py"):
                self.sources[name] = self._read(origin, name, spec.submodule_search_locations is not None)
        return self.sources[name]

    def _read(self, path: str, name: str, is_package: bool) -> Source | None:
        try:
            if os.path.getsize(path) > MAX_SOURCE:
                return None
            with open(path, "rb") as file:
                tree = ast.parse(file.read())
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        package = name if is_package else name.rpartition(".")[0]
        found = Source(self, package)
        found.read(tree)
        return found


class Source:
    """The names of one module, as its source shows them."""

    def __init__(self, interpreter: Interpreter, package: str) -> None:
        self.names: set[str] = set()
        self.bindings: dict[str, tuple[str, str | None]] = {}
        self.is_open = False
        """Names may be made at run time, so that no other name is proved to be missing."""
        self.is_written_later = False
        """Functions may add names, so that importing the module does not show all of them either."""
        self._interpreter = interpreter
        self._package = package

    def read(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            word = getattr(node, "id", None) or getattr(node, "attr", None)
            if isinstance(node, (ast.Name, ast.Attribute)) and (word in DYNAMIC or word == "modules"):
                self.is_open = True
            if isinstance(node, ast.Global):
                self.names.update(node.names)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.is_written_later = self.is_written_later or any(writes_a_module(one) for one in ast.walk(node))
        self._body(tree.body)
        self.is_open = self.is_open or "__getattr__" in self.names

    def _body(self, body: list[Any]) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self.names.add(node.name)
            elif isinstance(node, ast.Import):
                for one in node.names:
                    bound = one.asname or one.name.partition(".")[0]
                    self.names.add(bound)
                    self.bindings[bound] = (one.name if one.asname else bound, None)
            elif isinstance(node, ast.ImportFrom):
                self._from(node)
            else:
                self._statement(node)

    def _from(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            parts = self._package.split(".")
            parts = parts[: len(parts) - node.level + 1]
            base = ".".join(parts + ([base] if base else []))
        for one in node.names:
            if one.name != "*":
                self.names.add(one.asname or one.name)
                self.bindings[one.asname or one.name] = (base, one.name)
                continue
            if self._interpreter.is_standard(base):
                self.is_open = self.is_open or base.startswith("_")  # what it has differs between platforms
                self.names.update(dir(self._interpreter.module(base)))
                continue
            star = self._interpreter.source(base)
            if star is None or star.is_open:
                self.is_open = True
            else:
                self.names.update(star.names)

    def _statement(self, node: ast.AST) -> None:
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, (ast.Store, ast.Del)):
                self.names.add(one.id)
            elif type(one).__name__ == "MatchAs" and getattr(one, "name", None):
                self.names.add(one.name)  # type: ignore[attr-defined]
        for field in ("body", "orelse", "finalbody"):
            inner = getattr(node, field, None)
            if isinstance(inner, list):
                self._body(inner)
        for part in [*getattr(node, "handlers", ()), *getattr(node, "cases", ())]:
            self._body(part.body)


def writes_a_module(node: ast.AST) -> bool:
    """Whether this sets names of a module: `setattr(curses, ...)`, `globals()[...] = `, `vars(module).update(...)`."""
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Name) and called.id == "setattr" and node.args:
            return is_a_module(node.args[0])
        return isinstance(called, ast.Attribute) and called.attr in ("update", "setdefault") and is_names(called.value)
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and is_names(node.value)


def is_a_module(node: ast.AST) -> bool:
    """Whether an expression may be a module: `sys.modules[name]`, or a name that is importable."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "modules"
    return isinstance(node, ast.Name) and (node.id in sys.modules or node.id in ("module", "mod"))


def is_names(node: ast.AST) -> bool:
    """Whether an expression is the dictionary of a module's names."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id == "globals" or (node.func.id == "vars" and bool(node.args) and is_a_module(node.args[0]))
    return isinstance(node, ast.Attribute) and node.attr == "__dict__" and is_a_module(node.value)


def missing(module: str, name: str, known: Iterable[str]) -> dict[str, Any]:
    return {"module": module, "missing": name, "known": sorted(one for one in known if not one.startswith("_"))[:3000]}


def judge(interpreter: Interpreter, use: dict[str, Any]) -> dict[str, Any] | None:
    """What is proved to be missing; None: nothing."""
    name = use["module"]
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        here = ".".join(parts[:count])
        if interpreter.find(here) is not None:
            continue
        above = ".".join(parts[: count - 1])
        if not above:
            if here in interpreter.standard or here == "__main__":  # another platform has it
                return None
            return missing("", here, set(interpreter.standard) | installed(interpreter))
        return judge_submodule(interpreter, above, parts[count - 1])
    return walk(interpreter, name, use["names"], 0)


def judge_submodule(interpreter: Interpreter, above: str, name: str) -> dict[str, Any] | None:
    spec = interpreter.find(above)
    locations = spec.submodule_search_locations
    if interpreter.is_standard(above):
        module = interpreter.module(above)
        if module is None or ".".join((above, name)) in sys.modules:
            return None  # os.path
        return missing(above, name, beside(locations))
    source = interpreter.source(above)
    if locations is not None and (source is None or source.is_open):
        return None
    return missing(above, name, beside(locations))


def walk(interpreter: Interpreter, module: str, names: list[str], depth: int) -> dict[str, Any] | None:
    if not names or depth > MAX_DEPTH:
        return None
    if interpreter.is_standard(module):
        return walk_standard(interpreter, module, names)
    name = names[0]
    source = interpreter.source(module)
    if source is not None and name in source.bindings:
        base, attribute = source.bindings[name]
        if len(names) > 1 and interpreter.find(base) is not None:
            return walk(interpreter, base, ([attribute] if attribute else []) + names[1:], depth + 1)
        return None
    if source is not None and (name in source.names or name in MODULE_NAMES):
        return None
    if interpreter.find(module + "." + name) is not None:
        return walk(interpreter, module + "." + name, names[1:], depth + 1)
    if source is None or source.is_open:
        return None
    return missing(module, name, source.names | beside(interpreter.find(module).submodule_search_locations))


def walk_standard(interpreter: Interpreter, module: str, names: list[str]) -> dict[str, Any] | None:
    if module.startswith("_"):  # what it has differs between platforms
        return None
    found, path = interpreter.module(module), module
    if found is None:
        return None
    for name in names:
        if not isinstance(found, (types.ModuleType, type)) or name in ELSEWHERE or name.startswith("WSA"):
            return None
        if not has(found, name):
            inner = path + "." + name
            if isinstance(found, types.ModuleType) and interpreter.find(inner) is not None:
                found, path = interpreter.module(inner), inner
                continue
            if isinstance(found, type) and has(type(found), "__getattr__"):
                return None
            if isinstance(found, types.ModuleType) and is_written_later(interpreter, path):
                return None
            return missing(path, name, dir(found))
        try:
            found = getattr(found, name)
        except BaseException:
            return None
        path = path + "." + name
    return None


def is_written_later(interpreter: Interpreter, module: str) -> bool:
    """Whether functions of a standard module give it names: `curses` gets some from `initscr`."""
    source = interpreter.source(module)
    return source is not None and source.is_written_later


def has(thing: object, name: str) -> bool:
    try:
        return hasattr(thing, name)
    except BaseException:
        return True


def installed(interpreter: Interpreter) -> set[str]:
    return set().union(*(beside([path]) for path in interpreter.roots + sys.path))


def beside(locations: Iterable[str] | None) -> set[str]:
    """The names of the modules in these directories."""
    found = set()
    for directory in locations or ():
        try:
            entries = os.listdir(directory or ".")
        except OSError:
            continue
        for entry in entries:
            name = entry.partition(".")[0]
            is_module = entry.endswith((".py", ".so")) or os.path.isdir(os.path.join(directory, entry))
            if name.isidentifier() and is_module:
                found.add(name)
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    sys.path[:] = [path for path in sys.path if path]
    order = json.loads(sys.stdin.read())
    out, sys.stdout = sys.stdout, open(os.devnull, "w")  # noqa: SIM115
    interpreter = Interpreter(order["roots"])
    out.write(json.dumps([judge(interpreter, use) for use in order["uses"]]))
    out.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
