"""What to change in a kernel and what it would buy: remedies as overlays, predicted again by our model."""

from warplens.advisor.advice import Advice, Advised, Benefits, Place
from warplens.advisor.advise import HELPS, REMEDIES, advise, tried
from warplens.advisor.benefits import benefits

__all__ = ["HELPS", "REMEDIES", "Advice", "Advised", "Benefits", "Place", "advise", "benefits", "tried"]
