"""Pages of the installation: overview, search, operators and their decisions."""
