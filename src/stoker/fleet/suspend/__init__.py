"""Suspends a serve whose engine uses CUDA: the driver moves its device memory to main memory, and back.

cuda_driver  the driver's functions for it; a program of its own, since they block for seconds
suspension   asks that program, and says in words why it did not succeed
"""
