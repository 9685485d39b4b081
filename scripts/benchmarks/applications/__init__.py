"""The applications that are measured: ours, a bare one and a peer of the usual parts."""
