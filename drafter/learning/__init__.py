"""A drafter that learns from its user: on the device, without PyTorch, from text that the target has verified.

What is learnt is a low-rank correction of the drafter's logits (`drafter.step.Correction`). It is kept apart from the
graph, which never changes, so a version is swapped between two steps and taken back as fast. The idea is that of online
speculative decoding (arXiv 2310.07177): the drafter learns from the target's verdicts on the requests that it serves.
"""
