"""What Stoker does on a GPU, proved and measured by one prepared command: bench/gpu.md.

`python -m bench.gpu prepare`   here, with a network: the parts that the other machine has not, into build/gpu/parts
`python -m bench.gpu run`       there, without one: ten minutes; rows are kept as they are measured
`python -m bench.gpu page`      writes bench/gpu.md from the rows of a run

plan      steps, their bounds, sizes of models, and the cells of the table (pure)
rows      what was measured, skipped or failed, and why; kept line by line
table     the page (pure)
prepare   llama.cpp's source, stripped, and wheels
build     llama-server with CUDA, of that source
models    GGUF files of random weights, and a folder for the PyTorch engine
vllm      an engine of PyTorch with vLLM's sleep, started by Stoker as `vllm`
suspend   CUDA state of a process to main memory and back, by the driver
facts     card, driver, tools and speeds of the machine
steps     one module of steps for each question: swaps, memory, sharing, faults, speed
runner    each step in a process of its own, ended at its bound
"""
