"""Work on a Dask cluster: `--scheduler tcp://…` of an existing one, or `--scheduler local` for this machine.

- `connection.Cluster`: a connected cluster, its CPU workers, and its GPU workers, which have the resource `GPU: 1`.
- `description.Description`: what a worker says of itself: cugen's version, its GPU.
- `mapping.mapped`: one function over many items, in order, for `generate`, `run` and `bench`.
- `timing.RemoteProcess`: a timing process of `cugen.tune` beside a GPU worker.
- `preparing.CpuTasks`: what CPU workers do for searches, the most urgent first.
- `engine.ClusterEngine`: where a search prepares and times its candidates.
- `local`: the cluster of this machine.

Dask is imported only once a command has `--scheduler`.
"""
