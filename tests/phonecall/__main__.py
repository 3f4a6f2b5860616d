"""``python -m tests.phonecall``: see ``run``."""

import sys

from tests.phonecall.run import main

sys.exit(main())
