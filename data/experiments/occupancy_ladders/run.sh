#!/bin/bash
# Compile the kernels of examples/ and ladders.cu, and run it: bash data/experiments/occupancy_ladders/run.sh OUT
# From the repository's root; needs nvcc and a GPU of compute capability 9.0. Writes OUT/*.json.
set -euo pipefail
out=${1:-${OUT:-build/occupancy_ladders}} cubins=$(mktemp -d)
mkdir -p "$out"
cubin() { nvcc -cubin -O3 -arch=sm_90 "${@:3}" -o "$cubins/$1.cubin" "$2" & }
cubin permute examples/vector/permute.cu
cubin vabs examples/vector/vabs.cu
cubin black_scholes examples/black_scholes/black_scholes.cu
cubin black_scholes_fast examples/black_scholes/black_scholes.cu -use_fast_math
cubin sgemm64 examples/today/dense/sgemm.cu -DBM=64 -DBN=64
for tile in 2 4 8 16; do cubin matmul_tiled$tile examples/matmul/matmul_tiled.cu -DTILE=$tile; done
cubin matmul_naive examples/matmul/matmul_naive.cu
cubin svm examples/svm/svm.cu
cubin sepia examples/images/sepia.cu
cubin linear examples/images/linear.cu
cubin loads_dependent examples/micro/loads.cu -DDEPENDENT
cubin loads_independent examples/micro/loads.cu
cubin barrier examples/micro/barrier.cu -DBARRIER
cubin barrier_without examples/micro/barrier.cu
cubin ladders data/experiments/occupancy_ladders/ladders.cu
wait
nvcc -c -O3 -arch=sm_90 -o "$cubins/ladders.o" data/experiments/occupancy_ladders/ladders.cu
# Where there is no stub of the driver's library to link against: one with the names that are used.
nm -u "$cubins/ladders.o" | awk '$2 ~ /^cu[A-Z]/ {print "void " $2 "(void) {}"}' > "$cubins/stub.c"
gcc -shared -fPIC -w -Wl,-soname,libcuda.so.1 -o "$cubins/libcuda.so" "$cubins/stub.c"
nvcc -arch=sm_90 -o "$cubins/ladders" "$cubins/ladders.o" -L"$cubins" -lcuda
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv,noheader > "$out/gpu.txt"
time "$cubins/ladders" "$cubins" "$out"
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv,noheader >> "$out/gpu.txt"
ls -l "$out"
