"""A stand-in for Airtel Money: tokens of 180 seconds, pushes with and without signatures, disbursements, enquiries.

The last two digits of a subscriber number 7500000NN select an outcome, after the endings of Airtel's result codes;
every other number succeeds. The table is in `scenarios.py`.
"""

from simulators.airtel.access import AirtelSettings
from simulators.airtel.api import AirtelMoney

__all__ = ["AirtelMoney", "AirtelSettings"]
