"""What every room stands on: errors, units, files, caches, processes, compiled functions, the CUDA driver."""
