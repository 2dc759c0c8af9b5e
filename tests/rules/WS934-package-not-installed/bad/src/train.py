import mlflow
import torch
import transformers

from rows import read_rows

model = torch.nn.Linear(2, 2)
mlflow.log_param("layers", len(transformers.__version__))
print(model, read_rows("rows.csv"))
