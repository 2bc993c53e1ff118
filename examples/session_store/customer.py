"""Write as the customer: `python customer.py PR-1 'Order 2 hoists.'`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from transcripts import append

session, text = sys.argv[1:]
append(session, "user", text)
