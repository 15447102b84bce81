"""Sweeps over many configurations of kernels, and the search for the fastest one.

A sweep file is a space of macros, launch parameters, GPUs and models (docs/howto/sweep.md). Every configuration is
compiled, emulated and predicted by processes or a Dask cluster; a journal keeps what is done, so that a sweep can be
killed and resumed. `tune` emulates a twentieth of a space and estimates the rest (docs/howto/tune.md).

    spec.py         sweep files: spaces, configurations;  expression.py is their arithmetic
    points.py       one configuration to its rows: compiled, emulated, predicted, with a cache
    run.py          the runner of a sweep on an engine: processes, Dask, or any other Executor
    journal.py      the points that are done
    results.py      results.jsonl and results.parquet; closed-form points of workloads by broadcasting
    tune.py         the search
    estimate.py     configurations that were not emulated, from an emulated neighbour
    timing.py       candidates timed on the GPU at hand (`tune --measure`), chosen by expected improvement
    hooks.py        filters for Triton's autotune and for Kernel Tuner

A new engine is one function that returns an `Engine`; a new axis of a launch is a key of `Settings` in spec.py.
"""
