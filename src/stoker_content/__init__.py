"""What requests ask for and what answers say: shared by extensions, and no extension itself. Pure.

outline     what routing looks at in a request: its conversation, tools, images and length
user_turn   what the person wrote in a turn, without what an agent's harness added
question    questions that Stoker itself asks a model, with foreign data marked as such
verify/     is this answer well formed?
"""
