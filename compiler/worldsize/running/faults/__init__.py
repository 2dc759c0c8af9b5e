"""Faults while steps run: detects hangs, and injects faults on purpose."""
