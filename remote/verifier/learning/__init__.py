"""What the verifier's drafter learns from the sessions, in idle compute.

What it learns from stays in this process's memory and that of its child: never on a disk, never in a log. What it has
learnt is a step graph, offered to devices by its digest.
"""
