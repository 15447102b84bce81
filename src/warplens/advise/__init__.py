"""What to change in a kernel and what it would buy: remedies as overlays, predicted again by our model."""

from warplens.advise.advice import Advice, Advised, Benefits, Place
from warplens.advise.advisor import REMEDIES, advise
from warplens.advise.benefits import benefits

__all__ = ["REMEDIES", "Advice", "Advised", "Benefits", "Place", "advise", "benefits"]
