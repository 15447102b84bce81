"""What to change in a kernel and what it would buy: remedies as overlays, predicted again by our model."""

from warplens.advise.advice import Advice, Advised, Benefits, Place
from warplens.advise.advisor import HELPS, REMEDIES, advise, tried
from warplens.advise.benefits import benefits

__all__ = ["HELPS", "REMEDIES", "Advice", "Advised", "Benefits", "Place", "advise", "benefits", "tried"]
