"""The languages that tree-sitter reads here: their names, their grammars, what is a definition in them.

Each grammar is compiled into a wheel of its own. Without the extra `orchestrator` there are none.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, NamedTuple

EXTRA = "orchestrator"
"""The extra of this package that brings the grammars."""


class Grammar(NamedTuple):
    module: str
    function: str
    definitions: frozenset[str]
    """Types of nodes that a complete block has at its top."""
    words: tuple[str, ...]
    """What a fence calls the language."""


_JAVASCRIPT = ("function_declaration", "generator_function_declaration", "class_declaration", "export_statement")
_TYPESCRIPT = (
    *_JAVASCRIPT, "abstract_class_declaration", "interface_declaration", "type_alias_declaration", "enum_declaration",
    "internal_module", "module",
)  # fmt: skip
_GO = ("function_declaration", "method_declaration", "type_declaration")
_RUST = (
    "function_item", "struct_item", "enum_item", "union_item", "impl_item", "trait_item", "mod_item",
    "macro_definition", "type_item",
)  # fmt: skip
_JAVA = (
    "class_declaration", "interface_declaration", "enum_declaration", "record_declaration",
    "annotation_type_declaration", "method_declaration", "constructor_declaration",
)  # fmt: skip
_C = ("function_definition", "struct_specifier", "enum_specifier", "union_specifier", "type_definition")
_CPP = (*_C, "class_specifier", "template_declaration", "namespace_definition")
_C_SHARP = (
    "class_declaration", "interface_declaration", "struct_declaration", "enum_declaration", "record_declaration",
    "namespace_declaration", "delegate_declaration", "method_declaration",
)  # fmt: skip
_RUBY = ("method", "singleton_method", "class", "module")
_PHP = ("function_definition", "class_declaration", "interface_declaration", "trait_declaration", "enum_declaration")

GRAMMARS = (
    Grammar(
        "tree_sitter_javascript", "language", frozenset(_JAVASCRIPT), ("javascript", "js", "jsx", "mjs", "cjs", "node")
    ),
    Grammar("tree_sitter_typescript", "language_typescript", frozenset(_TYPESCRIPT), ("typescript", "ts", "mts")),
    Grammar("tree_sitter_typescript", "language_tsx", frozenset(_TYPESCRIPT), ("tsx",)),
    Grammar("tree_sitter_go", "language", frozenset(_GO), ("go", "golang")),
    Grammar("tree_sitter_rust", "language", frozenset(_RUST), ("rust", "rs")),
    Grammar("tree_sitter_java", "language", frozenset(_JAVA), ("java",)),
    Grammar("tree_sitter_c", "language", frozenset(_C), ("c", "h")),
    Grammar("tree_sitter_cpp", "language", frozenset(_CPP), ("cpp", "c++", "cc", "cxx", "hpp")),
    Grammar("tree_sitter_c_sharp", "language", frozenset(_C_SHARP), ("csharp", "cs", "c#")),
    Grammar("tree_sitter_ruby", "language", frozenset(_RUBY), ("ruby", "rb")),
    Grammar("tree_sitter_php", "language_php", frozenset(_PHP), ("php",)),
    Grammar("tree_sitter_bash", "language", frozenset(("function_definition",)), ("bash", "sh", "shell")),
)
_BY_WORD = {word: grammar for grammar in GRAMMARS for word in grammar.words}


def grammar_of(language: str) -> Grammar | None:
    """What a fence's word means; None: no grammar has it."""
    return _BY_WORD.get(language)


@cache
def language_of(grammar: Grammar) -> Any:
    """The `tree_sitter.Language`; None: the extra is not installed, or its parts do not fit together."""
    try:
        tree_sitter = importlib.import_module("tree_sitter")
        return tree_sitter.Language(getattr(importlib.import_module(grammar.module), grammar.function)())
    except (ImportError, AttributeError, ValueError, TypeError):
        return None


def missing_languages() -> tuple[str, ...]:
    """The languages that are not judged, because the extra is not installed."""
    return tuple(grammar.words[0] for grammar in GRAMMARS if language_of(grammar) is None)
