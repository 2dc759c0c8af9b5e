def run(mini_batch):
    return list(mini_batch)
