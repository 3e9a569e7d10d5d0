"""Which serve or tier answers a request? Pure.

names, aliases     model name -> serve; for an unknown name the nearest known one (alias_patterns: with wildcards)
dialects, context  which dialect the serve is asked in, and whether the request fits its context
classify           the task class of a request: declared, by its form, or by learned weights
                   (asks, between, features, shapes, verbs, languages, letters read the text; weights, packed hold the
                   weights; conversation, continuing look at earlier turns; classifier_model asks a model)
class_transitions  which class usually follows which
standing, demotion how a tier was measured at a class, and whether that still counts (judging: which live grades do)
policy             which tiers may serve a task, in which order, and why (advice: what to do if none may)
explore            whether another tier than the first choice gets a request
failover, breaker  after which failures the next tier is tried, and how long a failing tier is avoided
first_byte         how long to wait for a tier's first byte
"""
