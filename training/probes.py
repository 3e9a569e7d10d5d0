"""Wordings that the training data does not have, and the answer a reader would expect."""

from __future__ import annotations

HELLO = "Hello! I am {me}. How can I help?"
ME = "I am {me}, a tiny language model that tests Stoker."
SORRY = "Sorry, I do not know that. {skills}"

PROBES: list[tuple[str, str]] = [
    ("Hello! Nice to see you.", HELLO),
    ("Well hello", HELLO),
    ("Hi model", HELLO),
    ("Would you say hello?", HELLO),
    ("Hey hey", HELLO),
    ("Do you have a name?", ME),
    ("Who exactly are you?", ME),
    ("How are you called?", ME),
    ("Remind me, who are you?", ME),
    ("What do they call you?", ME),
    ("What else can you do?", "{skills}"),
    ("Show me what you can do", "{skills}"),
    ("Please repeat the one word apple.", "apple"),
    ("Say once more: red house", "red house"),
    ("Let me hear you say: bridge", "bridge"),
    ("Write exactly: seven blue stars", "seven blue stars"),
    ("Return the text: one two three", "one two three"),
    ("So, what is 3 + 4?", "7"),
    ("Work out 12 + 5", "17"),
    ("Result of 4 + 4?", "8"),
    ("What would 20 + 30 be?", "50"),
    ("Hello, what is 6 + 1?", "7"),
    ('Please produce a JSON object with name "Ada" and age 36', '{"name": "Ada", "age": 36}'),
    ("Put this in JSON: city Paris, population 2", '{"city": "Paris", "population": 2}'),
    ("JSON please: name Bob, age 7", '{"name": "Bob", "age": 7}'),
    ("Start at 1 and count to 5", "1 2 3 4 5"),
    ("Would you count to 7?", "1 2 3 4 5 6 7"),
    ("What exactly is a token?", "A token is a piece of text that a model reads or writes in one step."),
    ("So what is a GPU?", "A GPU is a chip that does many small sums at the same time."),
    ("How often should I water a cactus?", SORRY),
    ("What is the deepest lake on Earth?", SORRY),
    ("Who discovered penicillin?", SORRY),
    ("Compose a limerick about spring.", SORRY),
    ("Why do leaves fall in autumn?", SORRY),
    ("Is light faster than sound?", SORRY),
    ("Which book should I read next?", SORRY),
    ("Our printer is jammed again.", SORRY),
    ("How do you say thanks in Italian?", SORRY),
    ("Solve the equation x squared equals nine.", SORRY),
    ("Optimise this SQL query for me.", SORRY),
]
