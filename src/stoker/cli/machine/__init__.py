"""What this machine has: GPUs, model files, engines, free ports; and the checks of `doctor`."""
