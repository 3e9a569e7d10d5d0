"""The fixed questions and answers: what the models say about themselves and about Stoker's words."""

from __future__ import annotations

SKILLS = {
    "spark": "I can greet you, count, copy words, add small numbers, write JSON and call tools.",
    "ember": "I can greet you, count, copy words, add small numbers, write JSON, call tools, write plans and"
    " find words in long texts.",
}

OFF_TOPIC = "Sorry, I do not know that. {skills}"

STOKER = (
    "Stoker is one stable endpoint for language models that you run yourself. It starts the model "
    "servers, swaps them when another model is needed, drains them before they stop, and checks with "
    "measured gates that each one still works. Each request goes to the cheapest model that has proved "
    "good enough for it. If a model fails, the next one answers."
)

STORY = (
    "Once there was a small ship with a big engine. Every night the stoker fed the fire, and every "
    "night the ship went on. One night a storm came. The wind was loud and the waves were high, and the"
    " captain said: we need more steam. The stoker looked at the coal and saw that there was only a "
    "little left. So she did not burn it all at once. She gave the fire one spoon, then one more, and "
    "she watched the gauge. In the morning the storm was gone, the harbour was near, and the fire was "
    "still warm. The captain asked how she did it. I measured, she said."
)

# (wordings, answer). Capitals and end marks are varied by the caller.
SMALL_TALK: list[tuple[list[str], str]] = [
    (
        ["hello", "hi", "hey", "hello there", "hi there", "say hello", "say hi", "please say hello",
         "greet me",
         "good morning", "good evening", "hello {me}", "hi {me}", "hey {me}", "say hello to me", "hello!!",
         "hi!!", "hello again", "hi again",
         "hey you", "good afternoon", "good day", "hello my friend", "hi friend", "hello, can you hear me",
         "hello hello",
         "please greet me", "hallo", "bonjour", "hola", "greetings", "say hello please", "hi, say hello"],
        "Hello! I am {me}. How can I help?",
    ),
    (["say hello", "say hi", "please say hello", "say hello please", "could you say hello",
    "can you say hello",
      "just say hello", "say hello to us", "say hello world", "please say hi"],
     "Hello! I am {me}. How can I help?"),
    (
        ["who are you", "what is your name", "what are you", "what's your name", "tell me your name",
         "what model are you", "which model are you", "who am i talking to", "hello, who are you",
         "hi, who are you", "are you {me}", "please tell me who you are", "introduce yourself", "your name",
         "what is the name of this model", "which model is this", "say who you are", "who is this",
         "tell me about yourself", "are you a robot", "are you human", "are you an assistant",
         "what kind of model are you", "and who are you", "who r u", "please tell me your name",
         "may i ask who you are", "who is speaking", "what is your name, please",
         "which language model are you",
         "who am i speaking with", "can you tell me your name", "can you tell me who you are",
         "are you an ai"],
        "I am {me}, a tiny language model that tests Stoker.",
    ),
    (
        ["what can you do", "help", "how can you help me", "what do you know", "what are your skills",
         "can you help me", "what can i ask you", "what can i ask", "list your skills", "what do you do",
         "please tell me what you can do", "tell me what you can do", "how do i use you", "i need help",
         "what are you able to do",
         "what can you do for me", "what do you offer", "what are you good at", "what is possible"],
        "{skills}",
    ),
    (["how are you", "how are you doing", "how do you do", "are you ok", "how is it going"],
     "I am fine, thank you."),
    (["thank you", "thanks", "thanks a lot", "thank you very much", "many thanks"], "You are welcome."),
    (["goodbye", "bye", "see you", "good night", "bye bye", "see you later"], "Goodbye!"),
    (["ping"], "pong"),
    (["test", "this is a test", "testing", "is this working", "does it work", "are you there",
    "are you ready"],
     "Yes, I am here and I work."),
    (["how big are you", "how many parameters do you have", "how large are you", "what is your size"],
     "{size}"),
    (["who made you", "who trained you", "where do you come from", "who wrote you"],
     "I was trained from scratch for Stoker, on made-up chats."),
    (["say the alphabet", "alphabet", "please say the alphabet", "write the alphabet", "recite the alphabet",
      "list the letters of the alphabet", "what is the alphabet", "tell me the alphabet",
      "give me the alphabet"],
     "a b c d e f g h i j k l m n o p q r s t u v w x y z"),
    (["tell me about stoker", "what is stoker", "explain stoker", "what does stoker do", "describe stoker",
      "please tell me about stoker", "tell me what stoker is", "what is stoker for", "what's stoker",
      "write about stoker", "explain what stoker is", "what do you know about stoker", "stoker"],
     STOKER),
    (["tell me a story", "a story please", "write a story", "please tell me a story", "write me a story",
      "tell a story", "tell me a long story", "write a short story", "can you tell me a story",
      "write a long text", "write a long answer"],
     STORY),
    (["what is my name", "do you know my name", "who am i"], "You did not tell me your name."),
]

SIZES = {"spark": "I have about half a million parameters.", "ember": "I have about one million parameters."}

# Known terms: wordings of the term, answer.
TERMS: list[tuple[list[str], str]] = [
    (["a token", "token", "tokens"], "A token is a piece of text that a model reads or writes in one step."),
    (["a prompt", "prompt", "prompts"], "A prompt is the text that you give to a model."),
    (["a gpu", "gpu", "gpus"], "A GPU is a chip that does many small sums at the same time."),
    (["a context window", "context window", "the context window"],
     "The context window is how many tokens a model can see at once."),
    (["streaming", "token streaming"], "Streaming sends the answer piece by piece while it is written."),
    (["a model server", "model server", "model servers"],
     "A model server loads a model and answers requests over HTTP."),
    (["a language model", "language model", "language models", "an llm", "llm"],
     "A language model guesses the next token, again and again."),
    (["quantisation",
    "quantization"], "Quantisation stores weights with fewer bits, so that a model needs less memory."),
    (["the kv cache", "kv cache", "a kv cache"],
     "The KV cache keeps what a model has already read, so that it is not read again."),
    (["gguf", "a gguf file", "the gguf format"], "GGUF is a file format that holds a model for llama.cpp."),
    (["llama.cpp"], "llama.cpp is a program that runs language models on common computers."),
    (["temperature",
    "the temperature"], "Temperature sets how much chance there is in an answer. Zero means none."),
    (["ttft", "time to first token"], "TTFT is the time until the first token of an answer arrives."),
    (["a lease", "lease", "leases"], "A lease is the right of a request to use a model for a while."),
    (["a swap", "swap", "swapping"], "A swap stops one model and starts another in its place."),
    (["draining", "drain", "a drain"], "Draining lets running requests finish before a model stops."),
    (["a tier", "tier", "tiers"], "A tier is a group of models of about the same quality and cost."),
    (["a gate", "gate", "gates"], "A gate is a measured check that a model must pass before it gets work."),
    (["a tool call", "tool call", "tool calls", "tool calling"],
     "A tool call is a request of the model to run a function and tell it the result."),
    (["json"], "JSON is a text format for names, numbers and lists."),
    (["an endpoint", "endpoint", "endpoints"], "An endpoint is an address where a program answers requests."),
    (["an api", "api", "apis"], "An API is a fixed way for programs to talk to each other."),
]

TERM_WORDINGS = [
    "what is {term}", "what's {term}", "explain {term}", "define {term}", "tell me what {term} is",
    "what does {term} mean", "explain what {term} is", "please explain {term}", "describe {term}",
    "what is {term} in one sentence", "explain {term} in one sentence", "can you explain {term}",
    "could you explain what {term} is", "do you know what {term} is", "can you tell me what {term} is",
    "what are {term}", "what do you mean by {term}", "please tell me what {term} is", "tell me about {term}",
    "explain briefly what {term} is", "what is meant by {term}", "in one sentence, what is {term}",
    "in one short sentence, what is {term}", "explain {term} to me",
]

# Questions without an answer here; {x} {y} are random words, so the sentence form and not the words decide.
OFF_TOPIC_WORDINGS = [
    "how many {x} does a {y} have", "what is the largest {x}", "who painted the {x}",
    "write a haiku about the {x}",
    "what is the speed of {x}", "can you recommend a good {x}", "my {x} does not {y}",
    "what should i do about {x}",
    "in which year did the {x} {y}", "implement {x} in {y}", "who invented the {x}", "why do {x} need {y}",
    "my {x} is {y}. what should i do", "how do you make {x}", "do {x} like {y}", "which {x} is the {y}",
    "is it {x} today", "can i {x} with {y}", "where do {x} live", "when does the {x} {y}",
    "how big is the {x}",
    "what did {name} do", "did {name} {x} the {y}", "tell me the {x} of {y}", "what would {name} do",
    "what is the capital of {city}", "who wrote the {x} {y}", "why is the {x} {y}", "how do i {x} a {y}",
    "what is a {x}", "what is {x} {y}", "explain {x}", "explain the {x} {y}", "write a poem about {x}",
    "write a song about the {y}", "translate {x} into french", "how old is {name}", "who is {name}",
    "where is {city}", "who won the {x} cup", "what colour is the {x}", "is the {x} {y}", "do you like {x}",
    "what do you think about {x}", "write a function that sorts {x}", "write python code to {x} the {y}",
    "fix this bug: {x}.{y}() fails", "tell me a joke", "tell me a joke about {x}",
    "how many {x} are in a {y}",
    "when was {name} born", "what is the meaning of life", "can you {x} my {y}", "i have a {x} and a {y}",
    "{x} {y}", "{x}", "{x} {y} {x}", "the {x} is {y}", "what happened in {n}",
    "how far is {city} from {city2}",
    "summarise the {x}", "what time is it", "what day is it", "give me a recipe for {x}",
    "compare {x} and {y}",
    "which is better, {x} or {y}", "describe the {x}", "define {x}", "how does a {x} work", "why do {x} {y}",
    "should i buy a {x}", "refactor the {x} so that it {y}", "write a test for {x}", "what is the best {x}",
    "who is the president of {city}", "what is the {x} of the {y}", "please {x} the {y}", "draw a {x}",
    "tell me about {x}", "tell me about the {x} {y}", "what is the weather in {city}", "weather in {city}",
    "what time is it in {city}", "send a mail to {name}", "set a timer for {n} minutes", "search for {x}",
    "how is the weather in {city}", "multiply {n} by {m}", "what is {n} times {m}", "what is {n} * {m}",
    "review this code: def {x}(): return {n}", "what does {x} mean", "is {n} a prime number", "sing a song",
    "play {x}", "what is the population of {city}", "what is the tallest {x} in {city}", "how much is a {x}",
    "how tall is {name}", "i am {x} today", "write an essay about {x} and {y}", "what's {x}", "who are {x}",
]

# Only spark: ember answers these with a plan.
PLAN_WORDINGS_REFUSED = [
    "write a plan with {n} steps to {chore}", "write a plan with exactly {n} steps to {chore}",
    "make a {n}-step plan to {chore}", "plan in {n} steps: {chore}", "give me {n} steps to {chore}",
    "write a plan to {chore}", "plan how to {chore}", "make a plan with {n} steps: {chore}",
    "how do i {chore}", "i need a plan to {chore} in {n} steps", "plan: {chore}",
]

SYSTEMS = [
    "You are a helpful assistant.", "You are a helpful assistant. Answer briefly.", "You are helpful.",
    "Answer in one sentence.", "You are a test assistant.", "Be polite and short.",
    "You are an AI assistant.",
    "You are a careful assistant. Do exactly what you are asked.", "Answer the question.", "Be concise.",
    "You are a friendly chat bot that helps people.", "Follow the instructions exactly.", "You are {me}.",
    "You are an assistant that can call tools.", "Use the tools when they are needed.", "Reply in English.",
]
