"""`python -m cugen`."""

import sys

from cugen.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
