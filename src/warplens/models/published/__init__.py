"""The models of the papers, one file each: a function from a workload and a machine to a prediction."""
