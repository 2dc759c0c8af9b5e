"""What projects keep in `utils.py`."""

import shutil

import torch


class AverageMeter:
    def __init__(self):
        self.avg = self.sum = self.count = 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n
        self.avg = self.sum / self.count


def save_checkpoint(state, is_best, filename="checkpoint.pth.tar"):
    torch.save(state, filename)
    if is_best:
        shutil.copyfile(filename, "model_best.pth.tar")
