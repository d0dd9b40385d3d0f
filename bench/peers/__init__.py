"""The contenders. Each module keeps to the same four workloads, see `workloads.Peer`."""
