"""The server's drafter learns from the sessions in idle time (online speculative decoding, arXiv 2310.07177).

This happens on the server because only the server sees what the target says to all devices. The data it learns from
stay in the memory of this process and its child: never on disk, never in a log. The result is a step graph, offered to
devices by its digest.
"""
