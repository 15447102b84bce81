"""The command line: argument parsing and nothing else."""

from warplens.cli.main import main

__all__ = ["main"]
