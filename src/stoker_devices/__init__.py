"""What the accelerators of this machine do: use, memory, temperature, power, clocks, throttling; energy of requests.

reading    one moment of one device, and what follows from two of them (pure)
power      how the power of a device is shared among the slots that use it (pure)
nvidia     reads it by NVML
kernel     reads it from what the kernel shows of AMD and Intel devices
sampler    reads all devices, in a thread
server     the part of the server: /status, /metrics, events, and the energy in usage
"""
