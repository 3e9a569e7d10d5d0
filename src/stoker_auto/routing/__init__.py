"""Which tier answers a request that names a task class, or `auto`.

router    plans the tiers for a request           tier_quality   what is known about the tiers
dispatch  has the planned tiers asked             health         circuit breakers, time to the first byte
classes   the class of a request                  classifier     the built-in classifier with its weights
prewarm   predicts which model is wanted next     collaborators  what works beside the dispatcher
record    plans and attempts in the decision      answer_recorder  keeps an answer that is to be graded
"""
