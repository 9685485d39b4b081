"""What `scripts/bench` measures, one file each."""
