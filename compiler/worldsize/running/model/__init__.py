"""The data of a run: tasks, processes, results, options, folders. Nothing here starts or writes anything."""
