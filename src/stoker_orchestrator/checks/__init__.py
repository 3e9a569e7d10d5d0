"""The checks of one block, cheapest first.

structure  does it parse     syntax_tree, grammars  languages other than Python, by tree-sitter
names      does what it imports and calls exist     name_uses     which names a source uses, and how it calls them
           names_probe, methods, methods_program    what Python and jedi know of them     packages  of JavaScript
           value_origins  where its values come from     call_keywords, undefined  what the source shows of itself
           guards  what makes a statement unsure
commands   do the operator's commands accept it     source_files  the files that the blocks make
validator  does the validator model accept it
checker    asks the layers; which ones there are
"""
