"""Several verifiers of one model, on one machine or a cluster.

Ray is here because it starts the replicas, watches them and replaces one that dies, on any number of machines.
"""
