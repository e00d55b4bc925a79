"""`python -m boxscore`: the command."""

import sys

from boxscore.cli import main

sys.exit(main())
