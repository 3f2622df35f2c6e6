"""Several verifiers of one model, on one machine or a cluster.

Ray starts the replicas, watches them and replaces one that dies, on any number of machines.
"""
