"""Says which imports and attributes of modules exist. Its text is handed to the configured interpreter.

It gets `{"roots": [...], "uses": [...]}` as JSON on standard input, and writes one list as JSON. Modules of the
standard library are imported, because that alone shows all of their names. No other module is: its source is read.
What cannot be known for sure is taken to exist. Runs on Python 3.8 and newer.

A use is `{"module": "a.b", "names": ["c", "d"], "keywords": ["e"]}`. Its answer is null, or
`{"module": ..., "missing": ..., "known": [...], "is_keyword": bool}`: what is missing, of which module; "" means the
module itself. With `is_keyword` it is an argument that the function `module` does not take.
"""

# The configured interpreter may be older than the one that runs Stoker: no newer syntax, and only the standard library.
from __future__ import annotations

import abc
import ast
import builtins
import importlib
import inspect
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
NEWER = frozenset(
    (  # noqa: SIM905
        "batched override Buffer TypeAliasType walk full_match from_uri is_junction copy_into move_into move "
        "shutdown is_shutdown QueueShutDown ShutDown is_integer from_number strptime sumprod fma monitoring "
        "get_original_bases get_protocol_members is_protocol TypeIs ReadOnly NoDefault TypeForm deprecated "
        "process_cpu_count eager_task_factory create_eager_task_factory InterpreterPoolExecutor "
        "terminate_workers kill_workers annotationlib getencoding uuid6 uuid7 uuid8 "
        "binomialvariate kde kde_random markcoroutinefunction getasyncgenstate getasyncgenlocals Placeholder "
        "case_sensitive recurse_symlinks walk_up onexc autocommit delete_on_close suggest_on_error color "
    ).split()
)
"""Names, and arguments, of the standard library that only later versions than 3.11 have."""
DYNAMIC = frozenset(("globals", "vars", "locals", "exec", "eval", "setattr", "__import__", "__path__", "__dict__"))
MODULE_NAMES = frozenset(
    (  # noqa: SIM905
        "__name__ __doc__ __file__ __path__ __package__ __spec__ __loader__ __dict__ __all__ __version__ __cached__ "
        "__builtins__ __author__ __annotations__ __class__ "
    ).split()
)
CALLABLES = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
MAKERS = ("__init__", "__new__")
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
        self._tree = ast.Module([], [])
        self._definitions: Definitions | None = None

    def keywords(self, name: str) -> set[str] | None:
        """What a function or class of this module takes by name; None: it is not sure."""
        if self._definitions is None:
            self._definitions = Definitions(self._tree)
        return None if self.is_open else self._definitions.keywords(name)

    def read(self, tree: ast.Module) -> None:
        self._tree = tree
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


class Definitions:
    """What the functions and classes at the top of a source take by name. Looks at each node once."""

    def __init__(self, tree: ast.Module) -> None:
        self.nodes: dict[str, Any] = {}
        """By name, if nothing else at the top binds it."""
        self.known: dict[str, set[str] | None] = {}
        times: dict[str, int] = {}
        statements: list[ast.AST] = list(tree.body)
        while statements:
            node = statements.pop()
            for word in words_bound(node):
                times[word] = times.get(word, 0) + 1
            if not isinstance(node, SCOPES):
                statements.extend(ast.iter_child_nodes(node))
        for node in ast.walk(tree):
            for word in node.names if isinstance(node, ast.Global) else ():
                times[word] = times.get(word, 0) + 2
        for node in tree.body:
            if isinstance(node, SCOPES) and times[node.name] == 1:
                self.nodes[node.name] = node

    def keywords(self, name: str, depth: int = 0) -> set[str] | None:
        """None: it takes any, or it is not sure."""
        if name not in self.known and depth <= MAX_DEPTH:
            node, self.known[name] = self.nodes.get(name), None  # a class that is its own base
            if isinstance(node, ast.ClassDef):
                self.known[name] = self.constructor(node, depth)
            elif node is not None and not node.decorator_list:
                self.known[name] = parameters(node.args)
        return self.known.get(name)

    def constructor(self, node: ast.ClassDef, depth: int) -> set[str] | None:
        decorators = [word_of(one.func if isinstance(one, ast.Call) else one) for one in node.decorator_list]
        made: list[Any] = [one for one in node.body if isinstance(one, SCOPES) and one.name in MAKERS]
        set_otherwise = any(word in MAKERS for one in node.body if one not in made for word in words_bound(one))
        if node.keywords or set_otherwise or len(made) > 1 or set(decorators) - {"dataclass", "final"}:
            return None
        own: set[str] | None = set()
        if made:
            own = parameters(made[0].args) if made[0].name == "__init__" and not made[0].decorator_list else None
        elif "dataclass" in decorators:
            own = {
                one.target.id
                for one in node.body
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
            }
        if own is None:
            return None
        for base in node.bases:
            word = base.id if isinstance(base, ast.Name) else ""
            if word in self.nodes:
                above = self.keywords(word, depth + 1)
            else:
                above = set() if word in ("object", "ABC") or (made and is_error(word)) else None
            if above is None:
                return None
            own = own if made else own | above
        return own


def words_bound(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        return [node.id]
    if isinstance(node, SCOPES):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [one.asname or one.name.partition(".")[0] for one in node.names]
    return []


def parameters(arguments: ast.arguments) -> set[str] | None:
    """The names of parameters; None: any keyword is taken. Those that are positional only count, too."""
    if arguments.kwarg is not None:
        return None
    return {one.arg for one in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}


def is_error(name: str) -> bool:
    known = getattr(builtins, name, None)
    return isinstance(known, type) and issubclass(known, BaseException)


def word_of(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


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
    found = walk(interpreter, name, use["names"], 0)
    return judge_keywords(interpreter, use) if found is None and use.get("keywords") else found


def judge_keywords(interpreter: Interpreter, use: dict[str, Any]) -> dict[str, Any] | None:
    """The first argument that a function does not take."""
    module, names = use["module"], list(use["names"])
    for _ in range(MAX_DEPTH):
        if interpreter.is_standard(module):
            taken = standard_keywords(interpreter, module, names)
            break
        source = interpreter.source(module)
        if source is None or not names:
            return None
        if names[0] in source.bindings:
            base, attribute = source.bindings[names[0]]
            module, names = base, ([attribute] if attribute else []) + names[1:]
        elif len(names) > 1 and names[0] not in source.names:
            module, names = module + "." + names[0], names[1:]
        else:
            taken = source.keywords(names[0]) if len(names) == 1 else None
            break
    else:
        return None
    if taken is None:
        return None
    path = ".".join([module] * (module != "builtins") + names)
    wrong = [one for one in use["keywords"] if one not in taken]
    return {"module": path, "missing": wrong[0], "known": sorted(taken), "is_keyword": True} if wrong else None


def standard_keywords(interpreter: Interpreter, module: str, names: list[str]) -> set[str] | None:
    """What a function or class of the standard library takes by name; None: any, or it is not sure."""
    found: Any = None if module.startswith("_") else interpreter.module(module)
    for name in names:
        if not isinstance(found, (types.ModuleType, type)):
            return None
        found = inspect.getattr_static(found, name, None) if isinstance(found, type) else getattr(found, name, None)
    return callable_keywords(found)


def callable_keywords(found: Any) -> set[str] | None:
    """What a function, method or class takes by name. None: any, or it is not sure. Runs nothing of it."""
    if isinstance(found, (classmethod, staticmethod)):
        found = found.__func__
    if isinstance(found, type):
        made = [found.__dict__.get(name) for name in ("__init__", "__new__")]
        if type(found) not in (type, abc.ABCMeta) or (made[0] is None) == (made[1] is None):
            return None
        found = next(one for one in made if one is not None)
        found = found.__func__ if isinstance(found, staticmethod) else found
    if not isinstance(found, CALLABLES) or hasattr(found, "__wrapped__"):
        return None
    try:
        known = inspect.signature(found).parameters.values()
    except (ValueError, TypeError):
        return None
    return None if any(one.kind is one.VAR_KEYWORD for one in known) else {one.name for one in known}


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
