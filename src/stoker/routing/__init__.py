"""Which tier answers a request that names a class of tasks, or `auto`.

router      tiers and what is known of them: plans, evidence, failures
dispatch    follows a plan: asks a tier, judges its answer, goes on to the next
classifier  the built-in classifier with its shipped weights
prewarm     predicts which model will be wanted next
"""
