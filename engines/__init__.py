"""Models behind small ports."""

import os

# onnxruntime reads this as it is imported, which no engine does before this line. Without it, it
# keeps an id of the machine and a database of events in the user's cache folder.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
