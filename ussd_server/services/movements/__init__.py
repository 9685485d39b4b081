"""Movements: money that moved outside, what it is used for, and how two operators end what is unexplained."""
