"""The laboratory: measures a GPU with microbenchmarks and derives its machine file from the samples.

A measurement is an *entry*: kernels from a template, a *plan* that launches them, parameters. `warplens machine
measure` goes through all entries on the GPU at hand and writes every sample into a *journal*, a line each; `warplens
machine derive` makes a machine file of a journal. Each number of that file names its entry, the statistic and the
spread over repetitions. The same journal always gives the same file; the H200's is
`data/h200/journal/measured.jsonl.xz`, with `published.jsonl.xz` for the papers' own models.

Measure a new GPU (the driver, Python and NumPy are enough; the kernels may be compiled elsewhere):

    warplens machine measure --check --arch sm_89 --cubins cubins    # without the GPU: compile and check all kernels
    warplens machine measure --out run1 --cubins cubins              # on it: some three minutes; again in run2
    warplens machine agree run1/measured.jsonl run2/measured.jsonl   # exit 1 if two runs differ by more than promised
    warplens machine derive run1/measured.jsonl --also run2/measured.jsonl --out rtx4080.toml

Add an experiment: one file with a kernel template (`*_kernel`, returns a `Kernel` and what its machine code must be),
a plan (`measure_*`, yields a point and a repetition's values there), `entries()` and derivations (`derive_*`, yield
`Number`s); then its name in both lists of `catalogue.py`. A number that no step yields stays
as it is.

Experiments
    instructions, operations   latency, throughput and needed warps of single instructions and pairs; their table
    tensor, issue              matrix instructions; issue slots, stall counts, register banks
    chase, bandwidth           latency and size of each level, TLB; bytes per second by level, width and stride
    granularity                sectors and lines, L1 throughput: derived from these bandwidths
    loaded_latency, in_flight  latency under load, Volkov's mixes; requests in flight, distribution of latencies
    scattered, atomics         packets to L2 and DRAM in no order; additions by pattern
    launches, control          launches and blocks; barriers, branches, fences, caches of code and constants
    block_lifetime, waiting    lifetime of short blocks; queues before units, strips, cold code
    lemeire                    completion and issue of Lemeire's model, from entries of the others
    published                  departure delays, cost of barriers and divisions for the papers' other models

Infrastructure
    source, plan               kernels: prelude, expectations, helpers; entries and the sweeps that experiments share
    build, checks, patches     compiled kernels; machine code held against what was meant; bits changed in it
    gpu_session, stamps, nvml  a GPU ready to measure; stamps to numbers; clocks and other processes
    run, journal, catalogue    a run through the entries; its lines on disk; all entries and all derivations
    samples, head, derive      readings and numbers; a journal's head; the machine file
    agree                      two runs side by side, and what is promised of them

Beside them, `encoding` learns how nvdisasm writes machine words and `special_functions` records SFUs and tensor cores
bit for bit: both make a table that the package ships.
"""
