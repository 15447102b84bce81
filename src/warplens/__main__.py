"""Run the command line: `python -m warplens`."""

import sys

from warplens.cli import main

sys.exit(main())
