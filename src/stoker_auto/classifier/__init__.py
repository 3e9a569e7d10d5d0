"""Does a model tell task classes better than the built-in classifier?

labelled_prompts  prompts whose class is known, and the cost of each mistake
proof             the answers of a model, and whether it may be used
"""
