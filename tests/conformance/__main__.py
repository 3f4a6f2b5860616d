"""``python -m tests.conformance``: see ``run``."""

import sys

from tests.conformance.run import main

sys.exit(main())
