import torch

print("PyTorch", torch.__version__)
