"""The nemesis: real processes of the product under kills, stops, restarts and wrong clocks, and a checker of their history.

`world` starts them, `agents` and `people` call them and record each call (`history`), `receiver` counts what really
happened and fails in twelve ways, `storms` does the harm by a seed, and `checking` says per promise: holds, broken, unknown.
"""
