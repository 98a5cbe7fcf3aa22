"""`python -m reme_bench`: the same as `reme bench`."""

import sys

from reme_bench.cli import main

if __name__ == "__main__":
    sys.exit(main())
