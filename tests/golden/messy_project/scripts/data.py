"""The digits as a dataset."""

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def loader_of(folder, batch_size, shuffle):
    rows = torch.from_numpy(np.concatenate([np.load(path) for path in sorted(folder.glob("*.npy"))]))
    sampler = DistributedSampler(TensorDataset(rows), shuffle=shuffle)
    return DataLoader(TensorDataset(rows), batch_size=batch_size, sampler=sampler)
