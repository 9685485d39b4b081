"""Hands over to setup.cfg."""

from setuptools import setup

setup()
