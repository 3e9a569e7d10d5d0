"""What this machine has: GPUs, model files, engines, free ports."""
