"""The local workspace: Azure ML's service on loopback, with its jobs run by :mod:`worldsize.running`."""
