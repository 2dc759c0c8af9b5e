import mlflow
import torch
import transformers

model = torch.nn.Linear(2, 2)
mlflow.log_param("layers", len(transformers.__version__))
print(model)
