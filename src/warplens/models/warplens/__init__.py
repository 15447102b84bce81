"""Our own model: one SM simulated, the limits of the chip, and the interval of the answer."""
