"""Many configurations: a space of launches, macros, GPUs and models over kernels, swept by processes or a cluster."""
