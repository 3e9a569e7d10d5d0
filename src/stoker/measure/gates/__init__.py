"""Preflight gates: what a serve must do before it takes traffic, each asked over raw HTTP.

table      GATES, in reading order; start there
gate       the words: Gate, About (what is measured), Seen (what came of it), and the asking that all share
raw        what is wrong with the bytes of an answer, before anything of ours mends them; pure
wordings   the questions as data: for assistants, and for the two models that ship with Stoker
facts      what a serve says about itself: id, context, modalities, where its running requests are counted
look       plain GET and POST beside inference
causes     gate + what was seen -> likely cause, fix

identity, template, parts, text, context, tools, schema, stream, limits, chunks, pace, steady, repeat, image, letters:
the checks, one family each
fits       does a value fit a JSON schema; pure          signs    what damaged text looks like; pure
filler     long texts with words hidden in them; pure    pixels   the three pictures; pure
"""
