"""The pipeline simulator: one SM, its schedulers, pipes and memory, typed events out."""

from warplens.simulator.run import Options as SimulationOptions
from warplens.simulator.simulation import Line, Simulation, simulate

__all__ = ["Line", "Simulation", "SimulationOptions", "simulate"]
