"""The nemesis: real processes of the product under kills, stops, restarts and wrong clocks, and a checker of their
history.

`world` starts the processes, `agents` and `people` call them and record each call (`history`), `receiver` counts what
really happened and injects twelve kinds of faults, `fault_schedule` injects faults by a seed, and `checker` gives a
verdict per promise: holds, broken, unknown.
"""
