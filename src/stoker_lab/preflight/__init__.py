"""What a serve must do before it takes traffic: checks of protocol and behaviour, each asked over raw HTTP.

table       CHECKS, in reading order; start there
run         runs them one after the other and makes the `Run`
resuming    which findings of an interrupted run still count; pure
check       PreflightCheck, CheckContext (what is measured), CheckResult, and the asking that all checks share
checks/     one family of checks per file
wire_flaws  what is wrong with the bytes of an answer, before our readers repair it; pure
wordings    the questions as data: for any assistant, and for the two models in the package
facts       what a serve says about itself: id, context, modalities, where it counts running requests
pages       plain GET and POST beside inference
causes      failed check -> likely cause and fix
text_damage what damaged text looks like; pure    filler    long texts with hidden words; pure
pictures    the three test pictures; pure
"""
