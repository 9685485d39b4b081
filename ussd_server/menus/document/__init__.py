"""The menu document, read into typed nodes."""
