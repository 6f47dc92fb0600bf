"""Why a workload waits: the snapshot `why` reads, the evidence, and the ways out."""
