"""The suite: compile, run, count and keep the launches on which predictions are judged.

Predictions are held against launches that were timed on a GPU (data/README.md has the list). This package makes these
results again, for another GPU or after kernels were added. Compiling and counting need no GPU; running needs the driver
alone, no toolkit. Each step is a command of `python -m warplens.papers.validation.suite`:

    build                                    compile the launch files of examples/ into build/launches
    build --folder data/h200/suite/unseen    those of another folder
    build-triton                             Triton's kernels, into data/h200/suite/triton
    run --small | --time                     outputs of small launches; event times at full size
    ncu ... run --once                       every launch once, for a profiler
    ncu --profile-from-start off ... run --durations
    durations FOLDER ... RESULT              durations as ncu reports them, from its log
    counters FOLDER ... RESULT               counters and stalls of each instruction, from ncu's pages
    rules FOLDER RESULT                      estimates of Nsight Compute's rules
    keep FOLDER ...                          put results among those of data/h200/suite/kernels
    count                                    count every measured launch by the emulator
    build-tuning, run-tuning                 the tuning spaces, every configuration

`build.py` writes cubins and an index, `gpu.py` has one launch ready on the GPU, `run.py` and `tuning.py` go through an
index, `results.py` reduces and merges, `count.py` writes workloads. The commands for ncu stand in `results.py`.
"""
