"""Whether all ranks still make progress: heartbeats, hangs, slow ranks, memory, numbers that overflow."""
