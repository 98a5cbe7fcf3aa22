"""`python -m reme_core.cli` is `reme`."""

from __future__ import annotations

import sys

from reme_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
