"""What an imported configuration starts, beside what the other program starts.

recorder   a stand-in engine that writes down how it was started and what it was asked
sides      llama-swap and Stoker, each run on one file with the recorder as its engine
compare    two recordings: arguments, environment, directory and bodies, what differs
"""
