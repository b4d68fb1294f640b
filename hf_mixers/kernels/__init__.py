"""Kernels for accelerators; `mixer_kernels` needs triton and is imported where it is used."""
