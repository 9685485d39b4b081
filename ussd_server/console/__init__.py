"""The web console: pages for the people of clients and for operators."""
