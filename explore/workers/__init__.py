"""Workers: processes on this machine or a Dask cluster, which measure things, many at a time."""
