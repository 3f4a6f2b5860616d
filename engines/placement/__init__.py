"""Which engine runs on which GPU, or on which slice of one.

``inventory()`` says what is there, ``plan(wanted, inventory)`` gives each engine process its
Place, and a PlacementError names what is missing and the commands that make it. A process sees
one slice, so there is one engine process a slice (docs/gpu.md).
"""

from engines.placement.cutting import Remedy
from engines.placement.gpus import Gpu, Inventory, Slice
from engines.placement.nvml import inventory
from engines.placement.planning import PlacementError, Plan, Seat, draft, plan

__all__ = [
    "Gpu",
    "Inventory",
    "PlacementError",
    "Plan",
    "Remedy",
    "Seat",
    "Slice",
    "draft",
    "inventory",
    "plan",
]
