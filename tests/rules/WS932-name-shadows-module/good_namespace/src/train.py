import azureml.mlflow  # noqa: F401
import torch

print("PyTorch", torch.__version__)
