"""Which tier may answer a task? Pure.

policy             which tiers may serve a task, in which order, and why (advice: what to do if none may)
standing, demotion how a tier was measured at a class, and whether that still counts
explore            whether another tier than the first choice gets a request
in_loop            within a loop of tool calls the tier stays
class_transitions  which class usually follows which
breaker            how long a failing tier is avoided
"""
