from azure.ai.ml import load_job

job = load_job("./pipeline.yml")
job.inputs.endpoint_url = "https://example.com/score"
