"""Layouts of statements: how a file is read, shown before anything is stored, and what operators say of its columns."""
