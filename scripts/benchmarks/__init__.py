"""What `scripts/bench` measures; docs/PERFORMANCE.md explains it."""
