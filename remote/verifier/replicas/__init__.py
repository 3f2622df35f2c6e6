"""Several verifiers of one model on Ray, the distributed engine that starts, watches and replaces them."""
