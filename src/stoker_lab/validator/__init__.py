"""How often does a model judge wrongly: a validator of blocks, a judge of live answers?

planted_faults  blocks of code that are right, and the same with one planted fault
rates           the answers of a validator, kept on disk, and its false-alarm and miss rates
judge_cases     for each class answers that are right, and answers that are wrong in one thing
wording         names what a model is told
judge_rates     the verdicts of a judge on them, and whether it passed
"""
