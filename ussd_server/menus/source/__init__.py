"""The text of a menu document, in YAML or JSON: reads it, and knows the line of every field."""
