"""Mails: written with the change that they report, sent by the worker, and chosen by their readers."""
