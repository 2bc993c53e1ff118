"""The part between the network and Django: bodies, shares of threads, slow clients."""
