"""Fused Triton kernels; every one has an eager twin elsewhere that says what it computes."""
