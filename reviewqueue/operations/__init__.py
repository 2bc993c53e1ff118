"""What operators run and watch: commands' work, processes, health, metrics, the doctor, keys and set-up."""

from __future__ import annotations
