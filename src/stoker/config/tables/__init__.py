"""The tables of the file: every key with its type, its default and its meaning (`domain.kinds.setting`).

Most are records of `domain`, which the program uses as they are. Here are the others:

file     the whole file
gates    `[alias.NAME]`
router   `[[tier]]`
"""
