"""How often does a validator model judge wrongly?

planted_faults  blocks of code that are right, and the same with one planted fault
rates           the answers of a validator, kept on disk, and its false-alarm and miss rates
"""
