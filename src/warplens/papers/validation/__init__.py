"""Every model against measured kernels: errors, intervals, ablation, ladders of optimisations, tuning."""
