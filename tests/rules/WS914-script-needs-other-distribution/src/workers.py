import json
import os

print(json.loads(os.environ["TF_CONFIG"])["task"]["index"])
