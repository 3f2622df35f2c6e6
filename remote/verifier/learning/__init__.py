"""What the server's drafter learns from the sessions, in idle compute (online speculative decoding, arXiv 2310.07177).

It is here because only the server sees what the target says to all devices, and its drafter can follow what is asked.
What it learns from stays in this process's memory and that of its child: never on a disk, never in a log. What it has
learnt is a step graph, offered to devices by its digest.
"""
